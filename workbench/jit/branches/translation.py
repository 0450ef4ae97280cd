"""Translation: functions that follow values of tensors, for as long as they are recorded in a form that can be."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType

from workbench.jit.branches.rewriting import Place, Unfit, place_of
from workbench.jit.branches.source import SourceFile, first_line
from workbench.jit.values.captured_tensor import BranchOnValue

_recording = threading.RLock()  # the code of a function is what all threads run


class Translation:
    """The branches and loops, met so far, that are recorded as operators of the program.

    Python runs a function as it was written until a branch asks for the value of a tensor. That branch is then
    rewritten, and nothing else.
    """

    def __init__(self) -> None:
        self._chosen: dict[str, frozenset[Place]] = {}
        self._codes: dict[FunctionType, tuple[CodeType, CodeType]] = {}

    @property
    def is_used(self) -> bool:
        """Whether anything was rewritten."""
        return bool(self._codes)

    @contextmanager
    def in_effect(self) -> Iterator[None]:
        """The functions have their rewritten code in the `with` body; on plain values it does what theirs does."""
        if not self._codes:
            yield
            return
        with _recording:
            try:
                for function, (_, rewritten) in self._codes.items():
                    function.__code__ = rewritten
                yield
            finally:
                for function, (written, _) in self._codes.items():
                    function.__code__ = written

    def extend(self, refused: BranchOnValue, functions: Iterable[FunctionType]) -> None:
        """Have the branch that was refused rewritten.

        Args:
            functions: those in which it may stand.

        Raises:
            Unfit: it cannot be, with the reason.
        """
        file = SourceFile(refused.code.co_filename)
        place = place_of(file.branch_at(refused.code, refused.instruction))
        known = self._chosen.get(file.name, frozenset())
        if place in known:
            raise Unfit("its condition asks for the value in another way than by and, or, not and comparisons")
        written = {
            (code.co_name, code.co_firstlineno): function
            for function in functions
            if (code := self._codes.get(function, (function.__code__,))[0]).co_filename == file.name
        }
        for node in file.functions_around(place):
            function = written.get((node.name, first_line(node)))
            if function is not None:
                code = self._codes.get(function, (function.__code__,))[0]
                self._codes[function] = code, file.rewritten_code(code, node, known | {place})
                self._chosen[file.name] = known | {place}
                return
        raise Unfit("it is not in a `def` function that is known to be called here")

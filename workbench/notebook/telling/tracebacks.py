"""Tracebacks of workbench's own errors show the user's lines, not the inside of workbench.

The message of such an error names the op, what was expected and what came; the frames between it and the cell
help nobody but us, and no more do those that an interrupt finds. `%xmode Verbose` shows them all, and `%debug` finds
them in any mode. A wrong keyword of a function of ours, and an attribute that Paddle calls otherwise, get a suggestion.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from workbench.errors import EnforceNotMet
from workbench.framework.habits import suggest_attribute
from workbench.framework.keywords import suggest_keyword
from workbench.framework.site import is_ours

HANDLED = (EnforceNotMet, SyntaxError, KeyboardInterrupt, TypeError, AttributeError)
_PLUMBING = ("IPython", "contextlib", "threading")


class UserLines:
    """The handler for `EnforceNotMet`, interrupts, wrong keywords, and syntax errors in cells that a magic compiles."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    def install(self) -> None:
        """Take over, unless the user has a handler already."""
        if not self.shell.custom_exceptions:
            self.shell.set_custom_exc(HANDLED, self.show)

    def remove(self) -> None:
        """Give back."""
        if self.shell.custom_exceptions == HANDLED:
            self.shell.set_custom_exc((), None)

    @staticmethod
    def show(shell: Any, kind: type[BaseException], error: Any, trace: Any, tb_offset: Any = None) -> None:
        """Print the traceback of `error`, shortened to the user's lines."""
        if isinstance(error, SyntaxError):
            in_cell = shell.compile.format_code_name(error.filename) is not None
            shell.showsyntaxerror(running_compiled_code=not in_cell)  # the error itself says where it is
            return
        if isinstance(error, TypeError) and not isinstance(error, EnforceNotMet):
            suggest_keyword(error, trace)
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return
        if isinstance(error, AttributeError) and not isinstance(error, EnforceNotMet):
            suggest_attribute(error)
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return
        kept = None if shell.InteractiveTB.mode == "Verbose" else users_lines(trace)
        if kept is None:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return
        chain = error.__cause__, error.__context__
        error.__cause__ = error.__context__ = None  # its message repeats what the cause said
        try:
            shell.showtraceback((kind, error, kept), tb_offset=0)
        finally:
            error.__cause__, error.__context__ = chain


def users_lines(trace: TracebackType | None) -> TracebackType | None:
    """The frames of the user's code; None if there are none."""
    kept: TracebackType | None = None
    for entry in reversed(list(_entries(trace))):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The frames to keep, outermost first."""
    frames = list(_walk(trace))
    users = [i for i, entry in enumerate(frames) if not _hidden(entry)]
    for i in users:
        # The frame that holds a cell magic repeats the whole cell; the lines below it are the cell's own.
        holds_magic = i + 1 < len(frames) and frames[i + 1].tb_frame.f_code.co_name == "run_cell_magic"
        if not (holds_magic and i != users[-1]):
            yield frames[i]


def _walk(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _hidden(entry: TracebackType) -> bool:
    module = entry.tb_frame.f_globals.get("__name__", "")
    return is_ours(entry.tb_frame.f_code.co_filename) or module.split(".")[0] in _PLUMBING

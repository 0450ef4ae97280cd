"""`conv2d() got an unexpected keyword argument 'num_filter'` gets the keyword that was meant.

Python suggests keywords from 3.13 on, if they are spelt alike. `lr` for `learning_rate` is not, and before Python says
nothing at all: where a cell fails `notebook.telling.tracebacks` asks here, and for scripts `suggest_in_scripts` does.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from workbench.errors import did_you_mean, one_of
from workbench.framework.habits import call_here, keyword_here, suggest_attribute
from workbench.framework.site import is_ours

_UNEXPECTED = re.compile(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'")


def suggest_keyword(error: TypeError, trace: TracebackType | None) -> None:
    """Add to the message of a call with a wrong keyword which one is close, or which there are.

    Args:
        error: any TypeError; left alone unless it is about a keyword of a public function or class of workbench.
        trace: where it came from; its innermost frame made the call.
    """
    match = _UNEXPECTED.fullmatch(str(error))
    if match is None and trace is not None and (hint := call_here(error, _innermost(trace))):
        error.args = (f"{error}{hint}",)
    if match is None or trace is None or _is_users(match[1], trace):
        return
    takes = [[*inspect.signature(function).parameters] for function in _named(match[1])]
    takes = [[name for name in known if name != "self"] for known in takes if match[2] not in known]
    ways = (keyword_here, _by_initials, did_you_mean)
    hints = [hint for known in takes for way in ways if (hint := way(match[2], known))]
    if takes:
        error.args = (f"{error}.{hints[0] if hints else f' It takes {one_of(takes[0])}'}",)


def suggest_in_scripts() -> None:
    """Have the traceback of what nobody catches say it, too; it is shown by whoever shows it so far.

    What is caught, by a test runner for one, stays as Python says it.
    """
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            if isinstance(error, TypeError):
                suggest_keyword(error, trace)
            elif isinstance(error, AttributeError):
                suggest_attribute(error)
        finally:
            shown(kind, error, trace)

    sys.excepthook = show


def _by_initials(name: str, known: Iterable[str]) -> str:
    """`lr` is short for `learning_rate`."""
    meant = next((k for k in known if len(name) > 1 and "".join(w[:1] for w in k.split("_")) == name), None)
    return f" Did you mean {meant!r}?" if meant else ""


def _is_users(qualified: str, trace: TracebackType) -> bool:
    """Whether the caller's own function has that name."""
    frame, name = _innermost(trace).tb_frame, qualified.split(".")[0]
    own = frame.f_locals.get(name, frame.f_globals.get(name))
    return own is not None and not _is_public(own)


def _innermost(trace: TracebackType) -> TracebackType:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _named(qualified: str) -> Iterator[Any]:
    """The functions of workbench that call themselves so: `conv2d`, `Adam.__init__`."""
    first, *rest = qualified.split(".")
    for module in [m for name, m in sys.modules.items() if name.startswith("workbench.")]:
        value = vars(module).get(first)
        if not first.startswith("_") and _is_public(value):
            for part in rest:
                value = getattr(value, part, None)
            if inspect.isfunction(value) and value.__qualname__ == qualified:
                yield value


def _is_public(value: Any) -> bool:
    file = getattr(sys.modules.get(getattr(value, "__module__", "")), "__file__", None)
    return callable(value) and file is not None and is_ours(file)

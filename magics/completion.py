"""Tab completion behind our magics: names of programs, options, names of variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.framework.variable import Variable
from workbench.magics.arguments import options
from workbench.magics.programs import ProgramMagics
from workbench.notebook.session import Session

HOOK = "complete_command"


def add_completion(shell: Any, session: Session, magics: ProgramMagics) -> None:
    """Complete the arguments of every magic of `magics`."""
    for key, method in commands(magics).items():
        shell.set_hook(HOOK, _completer(session, method), str_key=key)


def remove_completion(shell: Any, magics: ProgramMagics) -> None:
    """Undo `add_completion`."""
    dispatch = shell.strdispatchers.get(HOOK)
    for key in commands(magics):
        if dispatch is not None:
            dispatch.strs.pop(key, None)


def commands(magics: ProgramMagics) -> dict[str, Callable[..., Any]]:
    """{"%%static_program": its method, …}."""
    escapes = {"line": "%", "cell": "%%"}
    return {
        escapes[kind] + name: getattr(magics, method)
        for kind, names in type(magics).magics.items()
        for name, method in names.items()
    }


def _completer(session: Session, method: Callable[..., Any]) -> Callable[[Any, Any], list[str]]:
    def complete(shell: Any, event: Any) -> list[str]:
        return candidates(session, method, event.text_until_cursor, event.symbol)

    return complete


def candidates(session: Session, method: Callable[..., Any], text: str, symbol: str) -> list[str]:
    """What may stand where the cursor is.

    Args:
        text: the line up to the cursor; symbol: the word the cursor is in.
    """
    if symbol.startswith("-"):
        return options(method)
    words = text.removesuffix(symbol).split()
    previous = words[-1] if words else ""
    if previous == "--fetch":
        return [n for n, v in session.namespace.items() if isinstance(v, Variable) and not n.startswith("_")]
    if previous in ("--steps", "--epochs", "--seed"):
        return []
    if method.__name__ == "train" and len([w for w in words if not w.startswith("-")]) == 2:
        return session.loaders()
    return list(session.programs())

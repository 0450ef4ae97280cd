"""Notebook magics: `%load_ext workbench`.

A magic reads its arguments, calls `workbench.notebook`, and shows what came back; nothing else happens here.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from workbench.framework import site
from workbench.magics.completion import add_completion, remove_completion
from workbench.magics.programs import ProgramMagics
from workbench.notebook.session import Session
from workbench.notebook.sites import CellNames
from workbench.notebook.tracebacks import UserLines

_loaded: WeakKeyDictionary[Any, ProgramMagics] = WeakKeyDictionary()
_sessions: WeakKeyDictionary[Any, Session] = WeakKeyDictionary()


def load(shell: Any) -> None:
    """Add the magics to a shell; once is enough, twice does no harm."""
    if shell in _loaded:
        return
    session = _sessions.setdefault(shell, Session(shell))  # outlives an unload, as the user's programs do
    magics = ProgramMagics(shell, session, CellNames(shell))
    shell.register_magics(magics)
    add_completion(shell, session, magics)
    site.add_formatter(magics.cell_names)
    UserLines().install(shell)
    _loaded[shell] = magics


def unload(shell: Any) -> None:
    """Take the magics and all hooks away again; programs and other variables stay."""
    magics = _loaded.pop(shell, None)
    if magics is None:
        return
    site.remove_formatter(magics.cell_names)
    UserLines().remove(shell)
    remove_completion(shell, magics)
    manager = shell.magics_manager  # IPython has no call for this
    for kind, names in type(magics).magics.items():
        for name in names:
            manager.magics[kind].pop(name, None)
    manager.registry.pop(type(magics).__name__, None)
    if magics in shell.configurables:
        shell.configurables.remove(magics)

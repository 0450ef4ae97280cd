"""Notebook magics: `%load_ext workbench`.

A magic reads its arguments, calls `workbench.notebook`, and shows what came back; nothing else happens here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.magic import Magics

from workbench.framework import site
from workbench.magics.clusters import ClusterMagics
from workbench.magics.completion import MagicCompletion
from workbench.magics.dashboards import DashboardMagics
from workbench.magics.programs import ProgramMagics
from workbench.magics.runs import RunMagics
from workbench.magics.steps import StepMagics
from workbench.notebook.dashboard.page.displayed import show_in, show_no_more
from workbench.notebook.programs.session import session_of
from workbench.notebook.steps.bars import draw_bars, draw_bars_as_before
from workbench.notebook.telling.notices import show_as_before, show_plainly
from workbench.notebook.telling.sites import CellNames
from workbench.notebook.telling.tracebacks import UserLines


@dataclass(frozen=True)
class Extension:
    """What a shell has got from us."""

    magics: tuple[Magics, ...]
    completion: MagicCompletion
    cell_names: CellNames
    tracebacks: UserLines


_loaded: WeakKeyDictionary[Any, Extension] = WeakKeyDictionary()


def load(shell: Any) -> None:
    """Add the magics to a shell; once is enough, twice does no harm."""
    if shell in _loaded:
        return
    session = session_of(shell)
    kinds = (ProgramMagics, StepMagics, RunMagics, ClusterMagics, DashboardMagics)
    magics = tuple(kind(shell, session) for kind in kinds)
    extension = Extension(magics, MagicCompletion(shell, session, magics), CellNames(shell), UserLines(shell))
    shell.register_magics(*magics)
    extension.completion.add()
    site.add_formatter(extension.cell_names)
    extension.tracebacks.install()
    show_in(shell)
    show_plainly(shell)
    draw_bars(shell)
    _loaded[shell] = extension


def unload(shell: Any) -> None:
    """Take the magics and all hooks away again; programs and other variables stay."""
    extension = _loaded.pop(shell, None)
    if extension is None:
        return
    show_no_more(shell)
    show_as_before()
    draw_bars_as_before()
    extension.tracebacks.remove()
    site.remove_formatter(extension.cell_names)
    extension.completion.remove()
    for magics in extension.magics:
        _unregister(shell, magics)


def _unregister(shell: Any, magics: Magics) -> None:
    """The opposite of `shell.register_magics`, for which IPython has no call."""
    manager = shell.magics_manager
    for kind, names in type(magics).magics.items():
        for name in names:
            manager.magics[kind].pop(name, None)
    manager.registry.pop(type(magics).__name__, None)
    if magics in shell.configurables:
        shell.configurables.remove(magics)

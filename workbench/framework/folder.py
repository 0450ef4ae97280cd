"""Packages that are imported whole, for their modules note what they declare; those whose folders lie elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, in alphabetical order, those of its sub-packages with them.

    Args:
        package, path: its `__name__` and `__path__`.
    """
    for name in sorted(module.name for module in iter_modules(path)):
        imported = import_module(f"{package}.{name}")
        import_all(imported.__name__, getattr(imported, "__path__", ()))


def find_beside(package: str, folder: Path, names: Iterable[str]) -> None:
    """Let sub-packages be imported whose folders do not lie in the package but beside it.

    Only these: were `folder` on the package's path, it would hold itself and all else that lies there, once more,
    under a second name.

    Args:
        package: its `__name__`.
        folder: where the sub-packages lie.
        names: what they are called there, and in the package.
    """
    sys.meta_path.append(_Beside({f"{package}.{name}" for name in names}, folder))


class _Beside:
    """A finder for `import`, which knows a few names."""

    def __init__(self, names: set[str], folder: Path) -> None:
        self._names, self._folder = names, str(folder)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self._folder], target) if name in self._names else None

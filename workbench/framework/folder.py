"""Packages that are found whole: their modules note what they declare when they are imported."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, in alphabetical order, those of its sub-packages with them.

    Args:
        package, path: its `__name__` and `__path__`.
    """
    for name in sorted(module.name for module in iter_modules(path)):
        imported = import_module(f"{package}.{name}")
        import_all(imported.__name__, getattr(imported, "__path__", ()))

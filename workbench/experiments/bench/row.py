"""What a row of `workbench bench --table` is; they are declared in `rows/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from workbench.errors import NotFound


@dataclass(frozen=True)
class BenchRow:
    """A program as somebody brings it.

    Attributes:
        name: to ask for it; about: what is trained, and how; wanted: what is to be reached.
        ways: by name, makes what is run here: something whose `step()` makes a step and gives its loss; it raises
            StopIteration where there are no more. The first one is what others are compared with.
        peers: by library, the file in `peers/` that does the same.
        share: whether the share of the floor is measured, too; what the ways make is a `Training` then.
    """

    name: str
    about: str
    wanted: str
    ways: Mapping[str, Callable[[], Any]]
    peers: Mapping[str, str] = field(default_factory=dict)
    share: bool = False


def all_rows() -> dict[str, BenchRow]:
    """Those of all files in `rows/`, by name."""
    from workbench.experiments.bench import rows

    files = sorted(info.name for info in iter_modules(rows.__path__))
    declared = [import_module(f"{rows.__name__}.{name}").ROWS for name in files]
    return {row.name: row for own in declared for row in own}


def row_named(name: str) -> BenchRow:
    """One of them.

    Raises:
        NotFound: there is none.
    """
    rows = all_rows()
    if name not in rows:
        raise NotFound(f"no row {name!r}; there are {', '.join(rows)}")
    return rows[name]

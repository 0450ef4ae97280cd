"""What loaders give: how many batches, and feeds by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workbench.data.loader import DataLoader
from workbench.errors import InvalidArgument, InvalidType, described
from workbench.framework.program.program import Program


def feed_names(program: Program) -> list[str]:
    """The feeds of a program, as it declared them."""
    return [v.name for v in program.global_block().vars.values() if v.is_data]


def feed_of(batch: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """A batch as {feed: array}.

    Raises:
        InvalidType: it is neither dict nor list. InvalidArgument: a list of another length than `names`.
    """
    if isinstance(batch, Mapping):
        return batch
    if not isinstance(batch, list | tuple):
        raise InvalidType(f"the loader must give dicts or lists of arrays, got {type(batch).__name__}")
    if len(batch) != len(names):
        raise InvalidArgument(
            f"the loader gave {len(batch)} arrays for the {len(names)} feeds of the program: {', '.join(names)}"
        )
    return dict(zip(names, batch, strict=True))


def require_batches(loader: Any, what: str) -> None:
    """Refuse what nobody can iterate over.

    Raises:
        InvalidType: it is no loader.
    """
    if not hasattr(loader, "__iter__") and not (hasattr(loader, "__getitem__") and hasattr(loader, "__len__")):
        raise InvalidType(f"{what} takes a DataLoader or another iterable of batches, got {described(loader)}")


def length_of(loader: Iterable[Any]) -> int | None:
    """Number of batches of one pass, None if the loader does not tell."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


def is_one_shot(loader: Any) -> bool:
    """Whether the loader is used up after one pass."""
    return isinstance(loader, Iterator)


def from_the_start(loader: Iterable[Any]) -> Iterator[Any]:
    """A pass over the loader that leaves it where it is."""
    return batches_of(loader.again() if isinstance(loader, DataLoader) else loader)


def batches_of(loader: Iterable[Any]) -> Iterator[Any]:
    """A pass over the loader; a DataLoader gives arrays, which programs are fed with."""
    return loader.arrays() if isinstance(loader, DataLoader) else iter(loader)


def close(batches: Iterator[Any]) -> None:
    """End the prefetch thread of a pass that is left early."""
    end = getattr(batches, "close", None)
    if end is not None:
        end()

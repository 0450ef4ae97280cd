"""Kernels, which rows of a tape name, and entries, which Python calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from workbench.runtime.footprint import kernel_of
from workbench.runtime.kernels.arguments import Along, declaration, items_of, types_of


class Kernel(NamedTuple):
    """A body, the numba types of its arguments, and what `Footprint` reads; None of what no row may name."""

    body: Callable[..., Any]
    types: tuple[Any, ...]
    declared: dict[str, Any] | None


KERNELS: dict[str, Kernel] = {}
ENTRIES: dict[str, Kernel] = {}

Declaration = Callable[[Callable[..., Any]], Callable[..., Any]]


def kernel(
    words: ModuleType | Sequence[ModuleType] = (), divides: Iterable[str | Along] = (), requires: str = ""
) -> Declaration:
    """Declare what a row can name, under the function's name; for float64 too if it has arguments that are `Reals`.

    Its arguments, which are the words of the row in order, are annotated: see `kernels.arguments`. The body returns a
    status of `native.words`, DONE if it did its work.

    Args:
        words: modules of `runtime.words` whose numbers and functions the expressions use.
        divides: the dimensions along which rows divide among threads, the preferred one first: arguments, words of a
            table as `table[WORD]`, or `Along`.
        requires: calls that raise `OutOfBounds` where a row is not to be written, with commas between them.
    """

    modules = (words,) if isinstance(words, ModuleType) else tuple(words)

    def note(body: Callable[..., Any]) -> Callable[..., Any]:
        for item in items_of(body):
            declared = declaration(body, item, modules, divides, requires)
            _into(KERNELS, kernel_of(body.__name__, item), Kernel(body, types_of(body, item), declared))
        return body

    return note


def inner_kernel(*types: Any) -> Declaration:
    """Declare what only other kernels write rows of, with addresses that those have got: nobody looks at them."""
    return lambda body: _into(KERNELS, body.__name__, Kernel(body, types, None))


def entry(*types: Any) -> Declaration:
    """Declare what Python calls with these arguments; it returns an int64."""
    return lambda body: _into(ENTRIES, body.__name__, Kernel(body, types, None))


def _into(table: dict[str, Kernel], name: str, declared: Kernel) -> Callable[..., Any]:
    if name in KERNELS or name in ENTRIES:
        raise ValueError(f"two kernels are named {name!r}")
    table[name] = declared
    return declared.body

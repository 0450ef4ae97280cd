"""How a kernel declares what a row of it touches.

A declaration is a function with the name and the parameters of the kernel. It gets the arguments of a row, of which
some point to memory, and gives for each of those how many bytes from there on the kernel may read or write; or, where
it goes backwards as well, the first byte and the one past the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench.errors import NotFound

FLOAT, WORD = 4, 8  # bytes


class OutOfReach(Exception):
    """A row would touch what is no part of its operands."""


Extent = int | tuple[int, int]
Touched = tuple[int, int, int]  # which argument points there, the first byte from there, one past the last


class Reach(NamedTuple):
    """What rows of a kernel touch; `touched(*arguments)` tells it."""

    parameters: tuple[str, ...]
    touched: Callable[..., Iterator[Touched] | Sequence[Touched]]


REACHES: dict[str, Reach] = {}


def reaches(*pointers: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what a kernel touches, under the function's name.

    Args:
        pointers: the parameters that point to memory, in the order in which the function gives their extents.
    """

    def note(extents: Callable[..., Any]) -> Callable[..., Any]:
        parameters = _parameters(extents)
        at = [parameters.index(name) for name in pointers]

        def touched(*arguments: Any) -> Iterator[Touched]:
            for index, extent in zip(at, extents(*arguments), strict=True):
                yield (index, *extent) if type(extent) is tuple else (index, 0, extent)

        REACHES[extents.__name__] = Reach(parameters, touched)
        return extents

    return note


def reaches_of_words(touched: Callable[..., Sequence[Touched]]) -> Callable[..., Sequence[Touched]]:
    """The same for a kernel that takes any number of words; the function gives which of them point, and how far."""
    REACHES[touched.__name__] = Reach((), touched)
    return touched


def reach_of(kernel: str) -> Reach:
    """The declaration of a kernel.

    Raises:
        NotFound: there is none.
    """
    reach = REACHES.get(kernel)
    if reach is None:
        raise NotFound(f"kernel {kernel!r} does not declare what its rows touch; see workbench.runtime.reach.declare")
    return reach


def require_inside(what: str, *conditions: bool) -> None:
    """Go on only if all hold.

    Raises:
        OutOfReach: tells what does not lie inside.
    """
    if not all(conditions):
        raise OutOfReach(f"{what} names what does not lie inside")


def span(*dims: tuple[int, int], item: int = FLOAT) -> Extent:
    """The bytes of an array whose dimensions are (size, stride in bytes).

    A size that is open is taken for 1 or more: where it turns out to be 0, nothing is touched at all.
    """
    first, last = 0, 0
    for size, stride in dims:
        if type(size) is int and size <= 0:
            return 0
        if stride < 0:
            first += (size - 1) * stride
        else:
            last += (size - 1) * stride
    return first, last + item


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]

"""What a row of a kernel touches: checked before the row is written.

A kernel declares it in its signature (`runtime.kernels.arguments`), as expressions of its arguments. They are kept in
the image beside the code, so that whoever writes rows needs neither the kernels' files nor their compiler; functions
that expressions call lie in `runtime.words`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from workbench.errors import NotFound
from workbench.runtime.division import Division, divisions_of

FLOAT, DOUBLE, WORD = 4, 8, 8  # bytes


class OutOfBounds(Exception):
    """A row would touch what is no part of its operands."""


Extent = int | tuple[int, int]
Touched = tuple[int, int, int]  # which argument points there, the first byte from there, one past the last


class Footprint:
    """What rows of a kernel touch, and how they divide.

    Args:
        declared: what `runtime.kernels.arguments.declaration` says of a kernel.
    """

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Of the kernel; none where it takes any number of words."""
        return tuple(self._declared["parameters"])

    @cached_property
    def touched(self) -> Callable[..., Sequence[Touched]]:
        """A function of the arguments of a row: which of them point to memory, and how far."""
        if "words" in self._declared:
            return _found(self._declared["words"])
        extents = "".join(f"({at}, *_bounds({extent})), " for at, extent in self._declared["extents"])
        return self._function(f"(({self._declared['requires']}), ({extents}))[1]")

    @cached_property
    def divisions(self) -> list[Division]:
        """The dimensions along which rows divide, the preferred one first."""
        return divisions_of(self._declared.get("divides", ()), self._function)

    @cached_property
    def own(self) -> frozenset[int]:
        """Arguments that point to memory for temporaries: rows that run at the same time need their own."""
        return frozenset(self._declared.get("own", ()))

    @cached_property
    def optional(self) -> frozenset[int]:
        """Arguments that point to memory or nowhere."""
        return frozenset(self._declared.get("optional", ()))

    @cached_property
    def dtypes(self) -> dict[int, tuple[np.dtype[Any], ...]]:
        """Of the arguments that point to memory: which dtypes arrays there may have."""
        return {at: tuple(map(np.dtype, names)) for at, names in self._declared.get("dtypes", ())}

    @cached_property
    def reals(self) -> tuple[int, ...]:
        """Arguments that point to float32 in one kernel, and to float64 in another one of the same body."""
        return tuple(self._declared.get("reals", ()))

    @cached_property
    def moved(self) -> tuple[int, ...]:
        """Arguments that point to what is only moved: arrays there have one dtype."""
        return tuple(self._declared.get("moved", ()))

    def _function(self, expression: str) -> Callable[..., Any]:
        """An expression of the arguments."""
        code = f"lambda {', '.join(self.parameters)}: {expression}"
        return eval(compile(code, "<footprint of a kernel>", "eval"), self._names)

    @cached_property
    def _names(self) -> dict[str, Any]:
        named = {name: _found(of) if isinstance(of, str) else of for name, of in self._declared["names"].items()}
        return {"span": span, "_bounds": _bounds, **named}


class GivenFootprint(Footprint):
    """A footprint whose parts are there already, as those of row programs.

    Args:
        touched, divisions, own: see the attributes of `Footprint`.
    """

    def __init__(
        self, touched: Callable[..., Sequence[Touched]], divisions: list[Division], own: frozenset[int]
    ) -> None:
        super().__init__({"parameters": ()})
        self.touched, self.divisions, self.own = touched, divisions, own


FOOTPRINTS: dict[str, Footprint] = {}
"""By kernel: of the images that were loaded, and of the row programs that were asked for."""


def footprint_of(kernel: str) -> Footprint:
    """What a kernel declares to touch.

    Raises:
        NotFound: it declares nothing.
    """
    footprint = FOOTPRINTS.get(kernel)
    if footprint is None:
        raise NotFound(f"kernel {kernel!r} does not declare what its rows touch; see workbench.runtime.footprint")
    return footprint


_OF_DOUBLES = ".f64"


def kernel_of(kernel: str, item: int) -> str:
    """The kernel made of some body for numbers of so many bytes."""
    return kernel if item == FLOAT else kernel + _OF_DOUBLES


def body_of(kernel: str) -> tuple[str, int]:
    """The name of the body a kernel is made of, and the bytes of the numbers it is for."""
    body = kernel.removesuffix(_OF_DOUBLES)
    return body, FLOAT if body == kernel else DOUBLE


def kernel_for(kernel: str, arguments: Sequence[Any]) -> str:
    """Of the kernels made of one body, the one for the numbers of the arrays that a row is given.

    Args:
        kernel: the name of the body, or of one of its kernels.

    Raises:
        OutOfBounds: there is no kernel for such numbers.
    """
    footprint = FOOTPRINTS.get(kernel)
    if footprint is None or not footprint.reals:
        return kernel
    given = [arguments[at] for at in footprint.reals]
    dtypes = {array.dtype for array in given if isinstance(array, np.ndarray)}
    if not dtypes:
        return kernel
    if len(dtypes) > 1 or not dtypes <= _REALS:
        raise OutOfBounds(f"kernel {kernel!r} works on float32 or on float64, got {sorted(map(str, dtypes))}")
    (dtype,) = dtypes
    return kernel_of(body_of(kernel)[0], dtype.itemsize)


_REALS = {np.dtype(np.float32), np.dtype(np.float64)}


def note(declarations: Mapping[str, Mapping[str, Any]]) -> None:
    """Make known what the kernels of an image touch."""
    FOOTPRINTS.update((kernel, Footprint(declared)) for kernel, declared in declarations.items())


def require_inside(what: str, *conditions: bool) -> None:
    """Go on only if all hold.

    Raises:
        OutOfBounds: tells what does not lie inside.
    """
    if not all(conditions):
        raise OutOfBounds(f"{what} names what does not lie inside")


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


def _bounds(extent: Extent) -> tuple[int, int]:
    return extent if type(extent) is tuple else (0, extent)  # type: ignore[return-value]


def _found(place: str) -> Any:
    """What stands at `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)

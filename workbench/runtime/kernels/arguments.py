"""What kernels say of their arguments, as annotations: the signature of a kernel is written once, and from it follow
what its body gets, what its rows touch and how they divide.

    @kernel(divides=("outer",))
    def take_rows(
        table: Address("outer", "max(height, 1)", "width"), ids: Ints("count"),
        out: Address("outer", "count", "width"), outer, height, count, width, padding,
    ):

An argument that is not annotated is a whole number, one that is `REAL` a number; all others point to memory. Their
dimensions are expressions of the arguments: sizes of what lies one after the other, the first dimension outermost, or
pairs (size, stride in bytes). Expressions may use constants that the kernel's file knows, and functions of
`runtime.words`: these are called where rows are written, without the kernel's file and its compiler.

A kernel with arguments that are `Reals` is compiled twice from the same body, for float32 and for float64. A row names
it as it is written; which of the two it is follows from the arrays it is given (`footprint.kernel_for`).
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from workbench.runtime.footprint import DOUBLE, FLOAT, WORD
from workbench.runtime.kernels.intrinsics import BYTES, DOUBLES, FLOATS, INT, INTS, INTS32, REAL, ROW

Size = int | str
Dim = Size | tuple[Size, Size]  # with a stride in bytes, or without


@dataclass(frozen=True)
class PointerArgument:
    """An argument that points to memory.

    Attributes:
        type: what the body gets. item: the bytes of an element. dims: see above.
        begin: of dense memory, the first element touched, where that is not the one pointed to.
        extent: in place of dims, an expression of how many bytes are touched, or of (first, end).
        own: it is memory for temporaries: rows that run at the same time need their own, and blocks do not move in it.
        optional: it may be None.
        moved: what lies there is only moved, in words of four bytes: it may be of any dtype of 4 or 8 bytes.
        is_real: there is a kernel for float32, which this is, and one for float64.
    """

    type: Any
    item: int
    dims: tuple[Dim, ...]
    begin: str | None = None
    extent: str | None = None
    own: bool = False
    optional: bool = False
    moved: bool = False
    is_real: bool = False

    def of(self, item: int) -> PointerArgument:
        """The same in the kernel for numbers of so many bytes."""
        return replace(self, type=_REALS[item], item=item) if self.is_real else self

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes that arrays given for it may have; none where it is a table."""
        return _MOVED if self.moved else _DTYPES.get(self.type) or _DTYPES_OF_BYTES.get(self.item, ())

    def bytes(self, name: str) -> str:
        """An expression of the bytes touched from there."""
        extent = self.extent or self._of_dims()
        return f"0 if {name} is None else {extent}" if self.optional else extent

    def _of_dims(self) -> str:
        if self._is_strided:
            pairs = ", ".join(f"(({size}), ({stride}))" for size, stride in self._pairs)
            return f"span({pairs}, item={self.item})"
        end = _product(self.item, self.dims)
        return end if self.begin is None else f"({_product(self.item, (self.begin,))}, {end})"

    def distance(self, along: str) -> str | None:
        """An expression of the bytes from one to the next along a dimension; None where it stays where it is."""
        if self.own:
            return None
        if self._is_strided:
            return next((str(stride) for size, stride in self._pairs if size == along), None)
        if along not in self.dims:
            return None
        if self.dims[0] != along or self.begin is not None:
            raise ValueError(f"memory of dimensions {self.dims} does not divide along {along!r}")
        return _product(self.item, self.dims[1:])

    @property
    def _is_strided(self) -> bool:
        return any(isinstance(dim, tuple) for dim in self.dims)

    @property
    def _pairs(self) -> list[tuple[Size, Size]]:
        return [dim for dim in self.dims if isinstance(dim, tuple)]


_MOVED = ("float32", "float64", "int32", "int64")
_REALS = {FLOAT: FLOATS, DOUBLE: DOUBLES}
_DTYPES = {FLOATS: ("float32",), DOUBLES: ("float64",), INTS: ("int64",), INTS32: ("int32",), BYTES: ("bool", "uint8")}
_DTYPES_OF_BYTES = {1: ("bool", "uint8"), FLOAT: ("float32",), WORD: ("float64",)}  # of addresses


def Floats(*dims: Dim, **options: Any) -> PointerArgument:
    """A pointer to float32."""
    return PointerArgument(FLOATS, FLOAT, dims, **options)


def Reals(*dims: Dim, **options: Any) -> PointerArgument:
    """A pointer to float32, or to float64; expressions call the bytes of a number `item`."""
    return PointerArgument(FLOATS, FLOAT, dims, is_real=True, **options)


def Ints(*dims: Dim, **options: Any) -> PointerArgument:
    """A pointer to int64."""
    return PointerArgument(INTS, WORD, dims, **options)


def Ints32(*dims: Dim, **options: Any) -> PointerArgument:
    """A pointer to int32."""
    return PointerArgument(INTS32, 4, dims, **options)


def Bytes(*dims: Dim, **options: Any) -> PointerArgument:
    """A pointer to bytes."""
    return PointerArgument(BYTES, 1, dims, **options)


def Address(*dims: Dim, item: int = FLOAT, **options: Any) -> PointerArgument:
    """An address, as a whole number; of float32, where `item` does not tell of how many bytes an element is."""
    return PointerArgument(INT, item, dims, **options)


@dataclass(frozen=True)
class Words:
    """The row itself, for kernels that take as many words as they like.

    Attributes:
        touched: a function of the words, see `Footprint.touched`.
    """

    touched: Callable[..., Any]


@dataclass(frozen=True)
class Along:
    """A dimension along which rows divide.

    Attributes:
        size: the argument that tells it, or a word of a table, `table[WORD]`.
        unit: blocks begin at multiples of it; an expression where rows differ. least: no block is smaller.
    """

    size: str
    unit: Size = 1
    least: int = 0


def items_of(body: Callable[..., Any]) -> tuple[int, ...]:
    """The bytes of numbers that a body is compiled for: of float32 and of float64, or of float32 alone."""
    given = annotations(body, FLOAT).values()
    return (FLOAT, DOUBLE) if any(isinstance(kind, PointerArgument) and kind.is_real for kind in given) else (FLOAT,)


def types_of(body: Callable[..., Any], item: int) -> tuple[Any, ...]:
    """The types of numba that a body is compiled for."""
    return tuple(_type(kind) for kind in annotations(body, item).values())


def annotations(body: Callable[..., Any], item: int) -> dict[str, Any]:
    """By parameter, in the kernel for numbers of so many bytes."""
    written = inspect.get_annotations(body, eval_str=True)
    given = {name: written.get(name, INT) for name in inspect.signature(body).parameters}
    return {name: kind.of(item) if isinstance(kind, PointerArgument) else kind for name, kind in given.items()}


def declaration(
    body: Callable[..., Any],
    item: int,
    words: Sequence[ModuleType] = (),
    divides: Iterable[str | Along] = (),
    requires: str = "",
) -> dict[str, Any]:
    """What `Footprint` reads: plain values that an image keeps.

    Args:
        item: bytes of a number of what is `Reals`.
        words: modules whose numbers and functions expressions use; they may use those of the body's file as well.
        requires: calls that raise `OutOfBounds` where a row is not to be written.
    """
    arguments = annotations(body, item)
    if any(isinstance(kind, Words) for kind in arguments.values()):
        return {"parameters": (), "words": place_of(next(iter(arguments.values())).touched)}
    known = body.__globals__ | {name: value for module in reversed(words) for name, value in vars(module).items()}
    known["item"] = item
    parameters = tuple(arguments)
    pointers = {name: kind for name, kind in arguments.items() if isinstance(kind, PointerArgument)}
    at = parameters.index
    declared = {
        "parameters": parameters,
        "requires": f"{requires}, " if requires else "",
        "extents": [[at(name), pointer.bytes(name)] for name, pointer in pointers.items()],
        "own": [at(name) for name, pointer in pointers.items() if pointer.own],
        "optional": [at(name) for name, pointer in pointers.items() if pointer.optional],
        "moved": [at(name) for name, pointer in pointers.items() if pointer.moved],
        "reals": [at(name) for name, pointer in pointers.items() if pointer.is_real],
        "dtypes": [[at(name), pointer.dtypes] for name, pointer in pointers.items()],
        "divides": [
            _division(one if isinstance(one, Along) else Along(one), pointers, parameters, known) for one in divides
        ],
    }
    return declared | {"names": _names(declared, parameters, known)}


def _division(
    one: Along, pointers: dict[str, PointerArgument], parameters: tuple[str, ...], known: dict[str, Any]
) -> dict[str, Any]:
    table, _, word = one.size.partition("[")
    moves = [[parameters.index(name), pointer.distance(one.size)] for name, pointer in pointers.items()]
    return {
        "at": parameters.index(table),
        "word": known[word.rstrip("]")] if word else None,
        "unit": str(one.unit),
        "least": one.least,
        "moves": [[index, distance] for index, distance in moves if distance is not None],
    }


def _names(declared: dict[str, Any], parameters: tuple[str, ...], known: dict[str, Any]) -> dict[str, Any]:
    """What expressions name beside the parameters: numbers, and where functions are."""
    expressions = [f"({declared['requires']})", *(extent for _, extent in declared["extents"])]
    for division in declared["divides"]:
        expressions += [division["unit"], *(distance for _, distance in division["moves"])]
    used = {node.id for text in expressions for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    named = sorted(name for name in used - {*parameters, "span"} if not hasattr(builtins, name))
    return {name: known[name] if isinstance(known[name], int) else place_of(known[name]) for name in named}


def place_of(function: Any) -> str:
    """Where a function that numbers and their tables are asked by is found without the compiler.

    Raises:
        ValueError: it lies beside kernels.
    """
    function = getattr(function, "py_func", function)
    if function.__module__.startswith("workbench.runtime.kernels"):
        raise ValueError(f"{function.__name__} is called where rows are written: it belongs into runtime.words")
    return f"{function.__module__}:{function.__name__}"


def _type(kind: Any) -> Any:
    if isinstance(kind, Words):
        return ROW
    return kind.type if isinstance(kind, PointerArgument) else kind


def _product(item: int, dims: Iterable[Dim]) -> str:
    return " * ".join([str(item), *(f"({dim})" for dim in dims)])


__all__ = ["INT", "REAL", "Address", "Along", "Bytes", "Floats", "Ints", "Ints32", "Reals", "Words", "declaration"]

"""Spec: what is known of a value before it exists - shape, dtype and kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import prod
from operator import index
from typing import Any, NamedTuple

from workbench.errors import DtypeError, InvalidType, ShapeError
from workbench.framework.values.dtype import DType

Shape = tuple[int, ...]
DENSE, ROWS, STACK, RAW = KINDS = "dense", "rows", "stack", "raw"


class Spec(NamedTuple):
    """Shape (−1 = known only when it runs), dtype and kind of a value.

    Attributes:
        kind: `"dense"` for arrays; `"rows"` for a sparse gradient (rows + values, see `framework.values.rows`);
            `"stack"` for what a loop saves for its gradient; `"raw"` for what is no tensor, such as the identity of a
            group of processes.
    """

    shape: Shape
    dtype: DType
    kind: str = DENSE

    def __str__(self) -> str:
        dims = ", ".join("?" if d < 0 else str(d) for d in self.shape)
        text = f"{self.dtype}[{dims}]"
        return text if self.kind == DENSE else f"{self.kind} {text}"

    def with_shape(self, shape: Iterable[int]) -> Spec:
        """The same dtype and kind with another shape."""
        return Spec(tuple(shape), self.dtype, self.kind)

    def with_dtype(self, dtype: DType) -> Spec:
        """The same shape and kind with another dtype."""
        return Spec(self.shape, dtype, self.kind)


def spec_of(array: Any) -> Spec:
    """The spec of a run-time value (array, rows gradient)."""
    from workbench.framework.values.dtype import as_dtype

    kind = ROWS if hasattr(array, "rows") and hasattr(array, "height") else DENSE
    return Spec(tuple(array.shape), as_dtype(array.dtype), kind)


def as_shape(dims: Any, what: str) -> Shape:
    """A shape as users write it, with -1 for None and negative dimensions.

    Raises:
        InvalidType: not a sequence of ints and None; the message begins with `what`.
    """
    if isinstance(dims, str) or not isinstance(dims, Iterable):
        raise InvalidType(f"{what}: a shape is a list of ints, None or -1, got {dims!r}")
    return tuple(_dimension(dim, what) for dim in dims)


def _dimension(dim: Any, what: str) -> int:
    if dim is None:
        return -1
    try:
        return max(index(dim), -1)
    except TypeError:
        raise InvalidType(f"{what}: a dimension is an int, None or -1, got {dim!r}") from None


def size_of(shape: Sequence[int]) -> int:
    """Number of elements, −1 when a dimension is unknown."""
    total = 1
    for d in shape:
        if d < 0:
            return -1
        total *= d
    return total


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting rule with unknown (−1) dimensions.

    Raises:
        ShapeError: two known dimensions differ and neither is 1.
    """
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return tuple(shapes[0])
    out: list[int] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        dim = 1
        for shape in shapes:
            if axis <= len(shape):
                dim = _broadcast_dim(dim, shape[-axis], shapes)
        out.append(dim)
    return tuple(reversed(out))


def _broadcast_dim(a: int, b: int, shapes: tuple[Shape, ...]) -> int:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a < 0 or b < 0:
        return max(a, b)  # the unknown one has to turn out equal (or 1)
    raise ShapeError(
        "the shapes do not broadcast",
        "equal dimensions, counted from the last one, or 1",
        " and ".join(map(shape_text, shapes)),
    )


def shape_text(shape: Sequence[int]) -> str:
    """`[?, 3]` for (-1, 3)."""
    return "[" + ", ".join("?" if d < 0 else str(d) for d in shape) + "]"


def same_dim(a: int, b: int) -> bool:
    """True unless two known dimensions differ."""
    return a == b or a < 0 or b < 0


def merge_dim(a: int, b: int) -> int:
    """The better known of two dimensions that have to be equal."""
    return b if a < 0 else a


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front.

    Raises:
        ShapeError: the axis lies outside `[-rank, rank)`.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"{what} is out of range", f"an int in [{-rank}, {rank})", axis)
    return axis + rank if axis < 0 else axis


def sizes_along(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """How many elements come before an axis, its size, and how many come behind it."""
    axis = normalize_axis(axis, len(shape))
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def groups_of(shape: Sequence[int], axes: Sequence[int]) -> list[tuple[int, bool]]:
    """Sizes of neighbouring axes that are all among `axes`, or none of them; and whether they are."""
    return merged_groups([(size, a in axes) for a, size in enumerate(shape) if size != 1])


def merged_groups(groups: Sequence[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """Groups of which no two neighbours are of the same kind."""
    return [(prod(n for n, _ in same), kind) for kind, same in groupby(groups, key=lambda group: group[1])]


def require_float(what: str, *specs: Spec | None) -> None:
    """Raise DtypeError unless every given spec has a floating dtype."""
    for spec in specs:
        if spec is not None and not spec.dtype.is_float:
            raise DtypeError(
                f"{what} takes floating-point tensors; cast this one first, as in x.astype('float32')",
                "float16, bfloat16, float32 or float64",
                spec.dtype,
            )


def require_numbers(what: str, *specs: Spec | None) -> None:
    """Raise DtypeError if a given spec is bool."""
    for spec in specs:
        if spec is not None and spec.dtype.kind == "bool":
            raise DtypeError(
                f"{what} takes numbers; cast this one first, as in x.astype('int64')",
                "an integer or floating dtype",
                spec.dtype,
            )


def require_same_dtype(what: str, *specs: Spec | None) -> None:
    """Raise DtypeError unless all given specs share one dtype."""
    given = [s for s in specs if s is not None]
    for spec in given:
        if spec.dtype is not given[0].dtype:
            raise DtypeError(f"{what} takes tensors of one dtype; cast one with .astype()", given[0].dtype, spec.dtype)


def agree(a: Spec, b: Spec) -> bool:
    """Whether two specs can describe one value: same dtype, kind and rank, no known dimensions that differ."""
    same_shape = len(a.shape) == len(b.shape) and all(map(same_dim, a.shape, b.shape))
    return same_shape and a.dtype is b.dtype and a.kind == b.kind


def require_place_for(result: Spec, holder: str, held: Spec) -> None:
    """Raise ShapeError unless a result fits into a value that exists already (same dtype, no known dim differs)."""
    if not agree(result, held):
        raise ShapeError(f"the result does not fit into {holder}", held, result)

"""What is asked of a collective: which arrays, in which order, checked once when it is prepared.

Nothing here computes, or knows whose arrays they are: shapes and dtypes are all it looks at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.config import get_flag
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.dtype import as_dtype

ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER = "all_reduce", "reduce", "broadcast", "all_gather"
OPS = ("sum",)


@dataclass(frozen=True, eq=False)
class Request:
    """One collective on fixed arrays.

    Attributes:
        kind: `"all_reduce"`, `"reduce"`, `"broadcast"` or `"all_gather"`.
        parts: what goes in, in the order of the local members; of a broadcast the root's array, or nothing where
            the root is in another process.
        outs: what is to be filled, in the order of the local members; of a reduce the root's array or nothing.
        root: the rank that a reduce sums for and a broadcast comes from, None for the others.
        order: of a sum, all ranks in the order in which their parts are added, from the left.
        names: the variables that travel, for messages and events.
    """

    kind: str
    parts: tuple[Any, ...]
    outs: tuple[Any, ...]
    root: int | None = None
    order: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one member's part."""
        if self.parts:
            return tuple(self.parts[0].shape)
        return tuple(self.outs[0].shape)  # a broadcast from elsewhere

    @property
    def dtype(self) -> Any:
        """The dtype of every array."""
        return (self.parts or self.outs)[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one member's part."""
        return prod(self.shape) * int(self.dtype.itemsize)

    @property
    def title(self) -> str:
        """Kind and variables, as messages name the collective."""
        return titled(self.kind, self.names)

    def __str__(self) -> str:
        return f"{self.title} ({form(self.shape, self.dtype)})"


def titled(kind: str, names: Sequence[str]) -> str:
    """`all_reduce of 'fc_0.w_0@GRAD'`; of many variables the first and how many there are."""
    if not names:
        return kind
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{kind} of {names[0]!r}{more}"


def form(shape: Sequence[int], dtype: Any) -> str:
    """`float32[2, 3]`."""
    return f"{dtype}{list(shape)}"


def refusal(title: str, what: str, expected: object, got: object) -> str:
    """The message of an error about a collective's arguments."""
    return f"{title}: {what}\n  expected: {expected}\n  got:      {got}"


def require_count(title: str, what: str, arrays: Sequence[Any], members: Sequence[str]) -> None:
    """One array for every member of this process, neither more nor fewer.

    Raises:
        InvalidArgument: another number of them.
    """
    if len(arrays) != len(members):
        expected = f"{len(members)}: {', '.join(members)}"
        raise InvalidArgument(refusal(title, f"one {what} for every member of this process", expected, len(arrays)))


def require_rank(title: str, root: Any, size: int) -> int:
    """`root` as the rank of a member.

    Raises:
        InvalidArgument: there is no such member.
    """
    if isinstance(root, bool) or not isinstance(root, int) or not 0 <= root < size:
        raise InvalidArgument(refusal(title, "the root is the rank of a member", f"0 <= root < {size}", repr(root)))
    return root


def require_sum(title: str, op: str, dtype: Any) -> None:
    """Only sums, and of numbers.

    Raises:
        InvalidArgument: another operation. InvalidType: a dtype that cannot be added.
    """
    if op not in OPS:
        raise InvalidArgument(refusal(title, "unknown operation", " or ".join(map(repr, OPS)), repr(op)))
    kind = as_dtype(dtype)
    if not (kind.is_float or kind.is_integer):
        raise InvalidType(refusal(title, "values are added", "floats or integers", kind))


def require_same_form(
    title: str, what: str, arrays: Sequence[Any], members: Sequence[str], like: str, shape: Any
) -> None:
    """Every array has the dtype and shape given by `shape` (a shape and a dtype).

    Args:
        what: what the arrays are, "part" or "result"; members: whose they are.
        like: where the expected form comes from, in words.

    Raises:
        InvalidType: something that is no array. InvalidArgument: another shape or dtype.
    """
    dims, dtype = tuple(shape[0]), shape[1]
    for array, member in zip(arrays, members, strict=True):
        if getattr(array, "shape", None) == dims and getattr(array, "dtype", None) == dtype:
            continue
        require_array(title, f"the {what} of {member}", array)
        got = form(array.shape, array.dtype)
        text = refusal(title, f"the {what} of {member} does not fit", f"{form(dims, dtype)}, {like}", got)
        raise InvalidArgument(text)


def require_array(title: str, what: str, array: Any) -> None:
    """Something with a shape and a dtype that workbench knows.

    Raises:
        InvalidType: it is something else.
    """
    if not hasattr(array, "shape") or not hasattr(array, "dtype") or not hasattr(array, "strides"):
        raise InvalidType(refusal(title, f"{what} is no array", "an array", type(array).__name__))
    as_dtype(array.dtype)


def sum_order(size: int, root: int) -> tuple[int, ...]:
    """The ranks in the order in which a reduce adds their parts (G-31)."""
    if get_flag("FLAGS_cpu_deterministic"):
        return tuple(range(size))
    return (root, *(rank for rank in range(size) if rank != root))

"""Einstein sums, composed of `matmul`, `transpose` and sums."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import same_dim, shape_text
from workbench.ops.math.products.contractions import size_of_all
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.tensor.arranged import diagonal
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench": "einsum"}

DOTS = "..."


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products along the dimensions that an equation names.

    Args:
        equation: "ij,jk->ik": a letter for each dimension of each operand; those that are not behind the arrow are
            summed over. Without an arrow the letters that come once are kept, in alphabetical order. "..." stands for
            further dimensions, which broadcast.
        operands: tensors of one dtype.

    Raises:
        InvalidArgument: an equation that does not fit the operands, or is none.

    Example:
        >>> x = wb.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> print(wb.einsum("ij->ji", x).numpy(), wb.einsum("ij,ij->", x, x).item())
        [[1. 3.]
         [2. 4.]] 30.0
    """
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    terms, result = _parsed(equation.replace(" ", ""), given)
    labels, kept = terms[0], set(result)
    x, labels = _own_sums(given[0], labels, set().union(*terms[1:], kept))
    for place, (y, names) in enumerate(zip(given[1:], terms[1:], strict=True), 1):
        later = set().union(*terms[place + 1 :], kept)
        y, names = _own_sums(y, names, later | set(labels))
        x, labels = _own_sums(x, labels, later | set(names))
        x, labels = _product(x, labels, y, names, later)
    x, labels = _own_sums(x, labels, kept)
    order = [labels.index(name) for name in result]
    return x if order == sorted(order) else transpose(x, order)


def _parsed(equation: str, operands: list[Any]) -> tuple[list[list[str]], list[str]]:
    """The names of the dimensions of each operand and of the result; those of dots are "...0", "...1" from behind."""
    before, arrow, after = equation.partition("->")
    texts = before.split(",")
    if len(texts) != len(operands) or not operands:
        raise InvalidArgument(f"einsum {equation!r} takes {len(texts)} operands, got {len(operands)}")
    terms = [_names(equation, text, len(x.shape)) for text, x in zip(texts, operands, strict=True)]
    dots = sorted({name for term in terms for name in term if name.startswith(DOTS)}, reverse=True)
    if not arrow:
        every = [name for term in terms for name in term if not name.startswith(DOTS)]
        return terms, dots + sorted(name for name in set(every) if every.count(name) == 1)
    result = _names(equation, after, None, dots)
    unknown = set(result) - set().union(*terms)
    if unknown or len(set(result)) != len(result):
        raise InvalidArgument(f"einsum {equation!r}: the result names each of the operands' dimensions at most once")
    _require_sizes(equation, terms, operands)
    return terms, result


def _names(equation: str, text: str, rank: int | None, dots: list[str] | None = None) -> list[str]:
    head, dotted, tail = text.partition(DOTS)
    if not all(c.isalpha() for c in head + tail):
        raise InvalidArgument(f"einsum {equation!r}: {text!r} is not made of letters and one '...'")
    if dots is None:
        count = (rank or 0) - len(head) - len(tail)
        if count < 0 or (count and not dotted):
            raise InvalidArgument(f"einsum {equation!r}: {text!r} does not fit an operand of {rank} dimensions")
        dots = [f"{DOTS}{i}" for i in reversed(range(count))]
    return [*head, *(dots if dotted else []), *tail]


def _require_sizes(equation: str, terms: list[list[str]], operands: list[Any]) -> None:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        for name, dim in zip(term, x.shape, strict=True):
            other = sizes.setdefault(name, dim)
            if not same_dim(other, dim) and not (name.startswith(DOTS) and 1 in (other, dim)):
                raise ShapeError(f"einsum {equation!r}: sizes of {name!r}", other, f"{dim} in {shape_text(x.shape)}")


def _own_sums(x: Any, labels: list[str], needed: set[str]) -> tuple[Any, list[str]]:
    """Diagonals of names that come twice, sums over those that nobody else needs."""
    labels = list(labels)
    while len(set(labels)) < len(labels):
        name = next(n for n in labels if labels.count(n) > 1)
        first = labels.index(name)
        second = labels.index(name, first + 1)
        x = diagonal(x, 0, first, second)
        labels = [n for i, n in enumerate(labels) if i not in (first, second)] + [name]
    gone = [i for i, name in enumerate(labels) if name not in needed]
    if not gone:
        return x, labels
    summed = reduce_sum(x, gone)
    left = [n for i, n in enumerate(labels) if i not in gone]
    return (summed if left else reshape(summed, [])), left


def _product(x: Any, ours: list[str], y: Any, theirs: list[str], needed: set[str]) -> tuple[Any, list[str]]:
    """Two operands as one: matrices whose rows are names of the first alone, columns those of the second."""
    shared = [n for n in ours if n in theirs]
    batch = [n for n in shared if n in needed]
    summed = [n for n in shared if n not in needed]
    rows, columns = [n for n in ours if n not in shared], [n for n in theirs if n not in shared]

    def matrix(z: Any, names: list[str], groups: list[list[str]]) -> tuple[Any, dict[str, int]]:
        size = dict(zip(names, z.shape, strict=True))
        moved = transpose(z, [names.index(n) for n in [*batch, *groups[0], *groups[1]]]) if names else z
        dims = [size_of_all([size[n] for n in group]) for group in groups]
        return reshape(moved, [*(size[n] for n in batch), *dims]), size

    a, sizes = matrix(x, ours, [rows, summed])
    b, others = matrix(y, theirs, [summed, columns])
    out = matmul(a, b)
    dims = list(out.shape[: len(batch)]) + [sizes[n] for n in rows] + [others[n] for n in columns]
    return reshape(out, dims), [*batch, *rows, *columns]

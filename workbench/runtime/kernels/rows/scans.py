"""What runs along rows: sums, products, extremes and recurrences up to every element, in vectors.

Down columns every lane is a row, and each element joins what there was before it. In a line the sixteen lanes of a
vector are sixteen elements of one row. There sums and extremes are joined over 1, 2, 4 and 8 lanes, four steps in place
of sixteen. Products and recurrences go one lane after the other: what is too large or too small for a number on the way
then depends on the elements up to there alone, while a product of later ones, which no result asks for, could be
infinite, and NaN when it meets a 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from workbench.framework.expr.expr import Expr
from workbench.framework.rows.recording import LARGEST, LAST_PLACE, PRODUCTS, RECURRENCE, SMALLEST, SUMS
from workbench.runtime.kernels import functions
from workbench.runtime.kernels.vectors import I32, INTEGERS, WIDTH

Vector = Any  # a value of LLVM
Joined = tuple[Vector, Vector]


class Scan(NamedTuple):
    """A fold that is told at every element.

    Attributes:
        start: what there is in front of a row; for LAST_PLACE a whole number. join: `join(v, before, *operands)`.
        in_turn: whether lanes go one after the other.
        neutral: operands that change nothing.
    """

    start: float
    join: Callable[..., Vector]
    neutral: tuple[float, ...]
    in_turn: bool = False


def _later(v: Any, before: Vector, place: Vector) -> Vector:
    return v.builder.select(v.builder.icmp_signed(">", before, place), before, place)


def _recur(v: Any, before: Vector, a: Vector, b: Vector) -> Vector:
    return v.builder.fadd(v.builder.fmul(a, before, flags=("contract",)), b, flags=("contract",))


_SCANS = {
    SUMS: Scan(-0.0, lambda v, before, x: v.add(before, x), (-0.0,)),  # a zero keeps its sign
    PRODUCTS: Scan(1.0, lambda v, before, x: v.multiply(before, x), (1.0,), in_turn=True),
    LARGEST: Scan(-functions.INFINITE, functions.maximum, (-functions.INFINITE,)),
    SMALLEST: Scan(functions.INFINITE, functions.minimum, (functions.INFINITE,)),
    RECURRENCE: Scan(0.0, _recur, (1.0, 0.0), in_turn=True),
    LAST_PLACE: Scan(0, _later, (0,)),
}


def start_down(v: Any, part: Expr) -> Vector:
    """What there is in front of columns."""
    scan = _SCANS[part.function]
    if part.function == LAST_PLACE:
        return ir.Constant(INTEGERS, [0] * v.lanes)
    return v.number(abs(scan.start) if part.value.exclusive and scan.start == 0 else scan.start)


def start_along(v: Any, part: Expr) -> Vector:
    """What there is in front of a line: in every lane, or as one number where lanes go in turn."""
    start = start_down(v, part)
    return v.builder.extract_element(start, I32(0)) if _SCANS[part.function].in_turn else start


def down(v: Any, part: Expr, before: Vector, operands: Sequence[Vector]) -> Joined:
    """What elements get, each of a row of its own, and what there is behind them."""
    after = _SCANS[part.function].join(v, before, *operands)
    return (before if part.value.exclusive else after), after


def along(v: Any, part: Expr, before: Vector, operands: Sequence[Vector], mask: Vector | None) -> Joined:
    """What the elements of a vector get, and what there is behind them.

    Args:
        mask: the lanes that are elements; None for all.
    """
    scan = _SCANS[part.function]
    neutral = [ir.Constant(x.type, [n] * WIDTH) for x, n in zip(operands, _neutral(v, scan), strict=True)]
    if mask is not None:
        operands = [v.builder.select(mask, x, n) for x, n in zip(operands, neutral, strict=True)]
    if scan.in_turn:
        return _in_turn(v, scan, part, before, operands)
    (x,), (nothing,) = operands, neutral
    reverse, distance = part.value.reverse, 1
    while distance < WIDTH:
        x = scan.join(v, _moved(v, x, nothing, distance, reverse), x)
        distance *= 2
    result = scan.join(v, before, x)
    ends = ir.Constant(INTEGERS, [0 if reverse else WIDTH - 1] * WIDTH)
    after = scan.join(v, before, v.builder.shuffle_vector(x, x, ends))  # not of the result: a step less to wait for
    return (_moved(v, result, before, 1, reverse) if part.value.exclusive else result), after


def _neutral(v: Any, scan: Scan) -> Sequence[Any]:
    is_whole = v.element == v.integer_element
    return [int(n) for n in scan.neutral] if is_whole else scan.neutral


def _moved(v: Any, x: Vector, filled: Vector, distance: int, reverse: bool) -> Vector:
    """Every lane's number some lanes on, those of another vector where there is none."""
    lanes = [lane + distance if reverse else lane - distance for lane in range(WIDTH)]
    order = [lane if 0 <= lane < WIDTH else WIDTH + own for own, lane in enumerate(lanes)]
    return v.builder.shuffle_vector(x, filled, ir.Constant(INTEGERS, order))


def _in_turn(v: Any, scan: Scan, part: Expr, before: Vector, operands: Sequence[Vector]) -> Joined:
    b, result = v.builder, ir.Constant(operands[0].type, ir.Undefined)
    one = type(v)(b, 1)
    for lane in reversed(range(WIDTH)) if part.value.reverse else range(WIDTH):
        after = scan.join(one, before, *(b.extract_element(x, I32(lane)) for x in operands))
        result = b.insert_element(result, before if part.value.exclusive else after, I32(lane))
        before = after
    return result, before

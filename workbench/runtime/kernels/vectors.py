"""Functions of sixteen float32 at once, written in LLVM's own terms: what vector code is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

WIDTH = 16
F32, I32, I64, I1 = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
VECTOR, INTEGERS, MASK = ir.VectorType(F32, WIDTH), ir.VectorType(I32, WIDTH), ir.VectorType(I1, WIDTH)


class Vectors:
    """Builds instructions on vectors; numbers stand for vectors of that number."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, x: Any) -> Any:
        return ir.Constant(VECTOR, [float(x)] * WIDTH) if isinstance(x, int | float) else x

    def integer(self, x: int) -> Any:
        return ir.Constant(INTEGERS, [x] * WIDTH)

    def call(self, name: str, *args: Any) -> Any:
        """An LLVM intrinsic on vectors of float32."""
        kind = ir.FunctionType(VECTOR, [VECTOR] * len(args))
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{WIDTH}f32")
        return self.builder.call(function, [self.number(a) for a in args])

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(self.number(a), self.number(b))

    def subtract(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(self.number(a), self.number(b))

    def multiply(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(self.number(a), self.number(b))

    def divide(self, a: Any, b: Any) -> Any:
        return self.builder.fdiv(self.number(a), self.number(b))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once."""
        return self.call("fma", a, b, c)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """Horner's scheme; the coefficient of the highest power comes first."""
        found = self.number(coefficients[0])
        for c in coefficients[1:]:
            found = self.fma(found, x, c)
        return found

    def compare(self, sign: str, a: Any, b: Any) -> Any:
        """A mask; every comparison with NaN but != is false."""
        build = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        return build(sign, self.number(a), self.number(b))

    def select(self, mask: Any, a: Any, b: Any) -> Any:
        return self.builder.select(mask, self.number(a), self.number(b))

    def truth(self, mask: Any) -> Any:
        return self.select(mask, 1.0, 0.0)

    def is_true(self, x: Any) -> Any:
        return self.compare("!=", x, 0.0)

    def is_nan(self, x: Any) -> Any:
        return self.builder.fcmp_unordered("uno", x, x)

    def bits(self, x: Any) -> Any:
        return self.builder.bitcast(self.number(x), INTEGERS)

    def floats(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, VECTOR)

    def to_integers(self, x: Any) -> Any:
        return self.builder.fptosi(x, INTEGERS)

    def to_floats(self, integers: Any) -> Any:
        return self.builder.sitofp(integers, VECTOR)

    def splat(self, x: Any) -> Any:
        """A scalar in every lane."""
        one = self.builder.insert_element(ir.Constant(VECTOR, ir.Undefined), x, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, WIDTH), [0] * WIDTH)
        return self.builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), zeros)

    # Memory

    def load(self, address: Any, mask: Any = None) -> Any:
        pointer = self.builder.inttoptr(address, VECTOR.as_pointer())
        if mask is None:
            found = self.builder.load(pointer)
            found.align = 4
            return found
        return self.builder.call(self._masked("load"), [pointer, I32(4), mask, self.number(0.0)])

    def store(self, x: Any, address: Any, mask: Any = None) -> None:
        pointer = self.builder.inttoptr(address, VECTOR.as_pointer())
        if mask is None:
            self.builder.store(x, pointer).align = 4
        else:
            self.builder.call(self._masked("store"), [x, pointer, I32(4), mask])

    def _masked(self, what: str) -> Any:
        pointer = VECTOR.as_pointer()
        if what == "load":
            kind = ir.FunctionType(VECTOR, [pointer, I32, MASK, VECTOR])
        else:
            kind = ir.FunctionType(ir.VoidType(), [VECTOR, pointer, I32, MASK])
        return cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.{what}.v{WIDTH}f32.p0")

    def first_lanes(self, count: Any) -> Any:
        """A mask of the first `count` (int64) lanes."""
        lanes = ir.Constant(INTEGERS, list(range(WIDTH)))
        one = self.builder.insert_element(ir.Constant(INTEGERS, ir.Undefined), self.builder.trunc(count, I32), I32(0))
        zeros = ir.Constant(INTEGERS, [0] * WIDTH)
        limit = self.builder.shuffle_vector(one, ir.Constant(INTEGERS, ir.Undefined), zeros)
        return self.builder.icmp_signed("<", lanes, limit)


def loop(builder: Any, count: Any, carried: Sequence[Any], body: Callable[..., Sequence[Any]]) -> list[Any]:
    """`for i in range(count): carried = body(i, *carried)`; what is carried at the end."""
    before = builder.block
    head, inside, behind = (builder.append_basic_block(name) for name in ("head", "inside", "behind"))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(I64)
    index.add_incoming(I64(0), before)
    values = []
    for value in carried:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        values.append(phi)
    builder.cbranch(builder.icmp_signed("<", index, count), inside, behind)
    builder.position_at_end(inside)
    made = body(index, *values)
    index.add_incoming(builder.add(index, I64(1)), builder.block)
    for phi, value in zip(values, made, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(behind)
    return values


def map_vectors(builder: Any, body: Callable[..., Any], out: Any, operands: Sequence[Any], count: Any) -> None:
    """`out[i] = body(operands[i]...)` for `count` floats, by sixteens, the last of them masked."""
    v = Vectors(builder)
    whole = builder.sdiv(count, I64(WIDTH))

    def step(i: Any) -> Sequence[Any]:
        offset = builder.mul(i, I64(4 * WIDTH))
        v.store(body(v, *[v.load(builder.add(o, offset)) for o in operands]), builder.add(out, offset))
        return ()

    loop(builder, whole, (), step)
    rest = builder.srem(count, I64(WIDTH))
    with builder.if_then(builder.icmp_signed(">", rest, I64(0)), likely=False):
        mask, offset = v.first_lanes(rest), builder.mul(whole, I64(4 * WIDTH))
        made = body(v, *[v.load(builder.add(o, offset), mask) for o in operands])
        v.store(made, builder.add(out, offset), mask)

"""Functions of sixteen numbers at once, written in LLVM's own terms: what vector code is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

WIDTH = 16
F32, F64, I32, I64, I1 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
VECTOR, INTEGERS, MASK = ir.VectorType(F32, WIDTH), ir.VectorType(I32, WIDTH), ir.VectorType(I1, WIDTH)


class Arithmetic:
    """Builds instructions on vectors of one kind of numbers; Python's numbers stand for vectors of that number.

    Attributes:
        kind: the LLVM type of such a vector; whole: that of integers with as many bits. item: bytes of a number.
    """

    element, integer_element, suffix, item = F32, I32, "f32", 4

    def __init__(self, builder: Any, lanes: int = WIDTH) -> None:
        self.builder, self.lanes = builder, lanes
        self.kind, self.whole = ir.VectorType(self.element, lanes), ir.VectorType(self.integer_element, lanes)

    def number(self, x: Any) -> Any:
        return ir.Constant(self.kind, [float(x)] * self.lanes) if isinstance(x, int | float) else x

    def integer(self, x: int) -> Any:
        return ir.Constant(self.whole, [x] * self.lanes)

    def call(self, name: str, *args: Any) -> Any:
        """An LLVM intrinsic."""
        kind = ir.FunctionType(self.kind, [self.kind] * len(args))
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{self.lanes}{self.suffix}")
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
        total = self.number(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, c)
        return total

    def compare(self, sign: str, a: Any, b: Any) -> Any:
        """A mask; every comparison with NaN but != is false."""
        build = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        return build(sign, self.number(a), self.number(b))

    def select(self, mask: Any, a: Any, b: Any) -> Any:
        return self.builder.select(mask, self.number(a), self.number(b))

    def within(self, x: Any, low: float, high: float) -> Any:
        """x between two bounds; the upper one for NaN."""
        x = self.select(self.compare("<", x, high), x, high)
        return self.select(self.compare(">", x, low), x, low)

    def at_most(self, x: Any, high: float) -> Any:
        """The smaller of x and a bound; NaN of NaN."""
        return self.select(self.compare("<", high, x), high, x)

    def bounded(self, x: Any, low: float, high: float) -> Any:
        """x between two bounds; NaN of NaN."""
        x = self.at_most(x, high)
        return self.select(self.compare(">", low, x), low, x)

    def bits(self, x: Any) -> Any:
        return self.builder.bitcast(self.number(x), self.whole)

    def from_bits(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, self.kind)

    def to_integers(self, x: Any) -> Any:
        return self.builder.fptosi(x, self.whole)

    def to_floats(self, integers: Any) -> Any:
        return self.builder.sitofp(integers, self.kind)

    def either(self, *masks: Any) -> Any:
        """Where one of the masks is true."""
        return reduce(self.builder.or_, masks)

    def both(self, *masks: Any) -> Any:
        """Where all masks are true."""
        return reduce(self.builder.and_, masks)

    def truth(self, mask: Any) -> Any:
        return self.select(mask, 1.0, 0.0)

    def is_true(self, x: Any) -> Any:
        return self.compare("!=", x, 0.0)

    def is_nan(self, x: Any) -> Any:
        return self.builder.fcmp_unordered("uno", x, x)

    def splat(self, x: Any) -> Any:
        """A scalar in every lane."""
        return self.everywhere(x, self.kind)

    def everywhere(self, x: Any, kind: Any) -> Any:
        undefined = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(undefined, x, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, undefined, zeros)

    # Memory

    def load(self, address: Any, mask: Any = None) -> Any:
        pointer = self.builder.inttoptr(address, self.kind.as_pointer())
        if mask is None:
            loaded = self.builder.load(pointer)
            loaded.align = self.item
            return loaded
        return self.builder.call(self._masked("load"), [pointer, I32(self.item), mask, self.number(0.0)])

    def store(self, x: Any, address: Any, mask: Any = None) -> None:
        pointer = self.builder.inttoptr(address, self.kind.as_pointer())
        if mask is None:
            self.builder.store(x, pointer).align = self.item
        else:
            self.builder.call(self._masked("store"), [x, pointer, I32(self.item), mask])

    def prefetch(self, address: Any, is_written: bool) -> None:
        """Bring what lies at an address into the cache; it need not be memory."""
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(function, [self.builder.inttoptr(address, pointer), I32(int(is_written)), I32(3), I32(1)])

    def _masked(self, what: str) -> Any:
        pointer, mask = self.kind.as_pointer(), ir.VectorType(I1, self.lanes)
        if what == "load":
            kind = ir.FunctionType(self.kind, [pointer, I32, mask, self.kind])
        else:
            kind = ir.FunctionType(ir.VoidType(), [self.kind, pointer, I32, mask])
        name = f"llvm.masked.{what}.v{self.lanes}{self.suffix}.p0"
        return cgutils.get_or_insert_function(self.builder.module, kind, name)

    def first_lanes(self, count: Any) -> Any:
        """A mask of the first `count` (int64) lanes."""
        lanes = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        return self.builder.icmp_signed("<", lanes, self.everywhere(self.builder.trunc(count, I32), lanes.type))


class Doubles(Arithmetic):
    """Float64: of float64 arrays, and for what float32 is too short for on the way."""

    element, integer_element, suffix, item = F64, I64, "f64", 8

    def widened(self, x: Any) -> Any:
        return self.builder.fpext(x, self.kind)

    def rounded(self, x: Any) -> Any:
        """As float32."""
        return self.builder.fptrunc(x, ir.VectorType(F32, self.lanes))

    def power_of_two(self, n: Any) -> Any:
        """2 to the power n, a whole number from -1022 to 1023."""
        exponent = self.builder.sext(self.builder.fptosi(n, ir.VectorType(I32, self.lanes)), self.whole)
        return self.from_bits(self.builder.shl(self.builder.add(exponent, self.integer(1023)), self.integer(52)))


class Vectors(Arithmetic):
    """Float32."""


class Wholes(Arithmetic):
    """Int64: sums and products of them, which wrap around."""

    element, integer_element, suffix, item = I64, I64, "i64", 8

    def number(self, x: Any) -> Any:
        return ir.Constant(self.kind, [int(x)] * self.lanes) if isinstance(x, int | float) else x

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.add(self.number(a), self.number(b))

    def multiply(self, a: Any, b: Any) -> Any:
        return self.builder.mul(self.number(a), self.number(b))


def is_of_doubles(kinds: Iterable[Any]) -> bool:
    """Whether a pointer to float64 is among numba's types of what code works on, else this is float32.

    Addresses, which are whole numbers, are of float32.
    """
    return any(isinstance(kind, types.CPointer) and kind.dtype == types.float64 for kind in kinds)


def vectors_of(builder: Any, kinds: Iterable[Any]) -> Arithmetic:
    """Vectors of the numbers that pointers of these types point to, see `is_of_doubles`."""
    return Doubles(builder) if is_of_doubles(kinds) else Vectors(builder)


def as_address(builder: Any, x: Any) -> Any:
    """A pointer as an address; what is no pointer as it is."""
    return builder.ptrtoint(x, I64) if isinstance(x.type, ir.PointerType) else x


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
    values_after = body(index, *values)
    index.add_incoming(builder.add(index, I64(1)), builder.block)
    for phi, value in zip(values, values_after, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(behind)
    return values


def map_vectors(v: Arithmetic, body: Callable[..., Any], out: Any, operands: Sequence[Any], count: Any) -> None:
    """`out[i] = body(operands[i]...)` for `count` numbers, by sixteens, the last of them masked."""
    builder = v.builder
    whole = builder.sdiv(count, I64(WIDTH))

    def step(i: Any) -> Sequence[Any]:
        offset = builder.mul(i, I64(v.item * WIDTH))
        v.store(body(v, *[v.load(builder.add(o, offset)) for o in operands]), builder.add(out, offset))
        return ()

    loop(builder, whole, (), step)
    rest = builder.srem(count, I64(WIDTH))
    with builder.if_then(builder.icmp_signed(">", rest, I64(0)), likely=False):
        mask, offset = v.first_lanes(rest), builder.mul(whole, I64(v.item * WIDTH))
        result = body(v, *[v.load(builder.add(o, offset), mask) for o in operands])
        v.store(result, builder.add(out, offset), mask)


class BlockOperand(NamedTuple):
    """Where a block is read: the byte at `offset` of it lies at `address + (offset & mask)`.

    The mask makes arrays that repeat after a power of two of bytes look as long as a block.
    """

    address: Any
    mask: Any

    def at(self, builder: Any, offset: Any) -> Any:
        return builder.add(self.address, builder.and_(offset, self.mask))


def map_long(v: Arithmetic, body: Callable[..., Any], out: Any, operands: Sequence[BlockOperand], count: Any) -> None:
    """`map_vectors` for a long body, which is written once; only loads and stores are there for the last few, too.

    Args:
        v: vectors of a round; those of more lanes than a register has are several registers, and what one waits for
            the others fill.
    """
    builder, lanes = v.builder, v.lanes

    def one(i: Any) -> Sequence[Any]:
        start = builder.mul(i, I64(lanes))
        offset, left = builder.mul(start, I64(v.item)), builder.sub(count, start)
        is_whole, inside = builder.icmp_signed(">=", left, I64(lanes)), v.first_lanes(left)
        operand_vectors = either(
            builder, is_whole,
            lambda: [v.load(o.at(builder, offset)) for o in operands],
            lambda: [v.load(o.at(builder, offset), inside) for o in operands],
        )  # fmt: skip
        result, target = body(v, *operand_vectors), builder.add(out, offset)
        either(builder, is_whole, lambda: [v.store(result, target)], lambda: [v.store(result, target, inside)])
        return ()

    loop(builder, vectors_in(builder, count, lanes), (), one)


def vectors_in(builder: Any, count: Any, lanes: int = WIDTH) -> Any:
    """How many vectors hold so many floats."""
    return builder.udiv(builder.add(count, I64(lanes - 1)), I64(lanes))


def either(
    builder: Any, condition: Any, first: Callable[[], Sequence[Any]], second: Callable[[], Sequence[Any]]
) -> list[Any]:
    """`first() if condition else second()`, of which the former is likely; lists of values, or of None."""
    with builder.if_else(condition, likely=True) as (then, otherwise):
        with then:
            a, end_a = first(), builder.block
        with otherwise:
            b, end_b = second(), builder.block
    phis = []
    for x, y in zip(a, b, strict=True):
        if x is None:
            continue
        phi = builder.phi(x.type)
        phi.add_incoming(x, end_a)
        phi.add_incoming(y, end_b)
        phis.append(phi)
    return phis


def add_rows(v: Arithmetic, out: Any, rows: Any, width: Any, count: Any, is_first: Any) -> None:
    """Add the rows in a block of `count` numbers, `width` each, to `out`; the first of all to nothing.

    Rows are added one after the other, whatever the size of blocks.
    """
    builder = v.builder
    bytes_of_row = builder.mul(width, I64(v.item))
    height = builder.sdiv(count, width)

    def columns(start: Any, vectors: int, mask: Any = None) -> None:
        """Of so many vectors of columns, from column `start` on."""
        offset = builder.mul(start, I64(v.item))
        places = [builder.add(offset, I64(v.item * WIDTH * n)) for n in range(vectors)]

        def row(r: Any, *totals: Any) -> Sequence[Any]:
            begin = builder.add(rows, builder.mul(r, bytes_of_row))
            return [v.add(t, v.load(builder.add(begin, p), mask)) for t, p in zip(totals, places, strict=True)]

        source = builder.select(is_first, rows, out)
        totals = [v.load(builder.add(source, p), mask) for p in places]
        skipped = builder.zext(is_first, I64)
        totals = loop(builder, builder.sub(height, skipped), totals, lambda r, *t: row(builder.add(r, skipped), *t))
        for total, p in zip(totals, places, strict=True):
            v.store(total, builder.add(out, p), mask)

    def many(i: Any) -> Sequence[Any]:
        columns(builder.mul(i, I64(4 * WIDTH)), 4)
        return ()

    trips = builder.sdiv(width, I64(4 * WIDTH))
    loop(builder, trips, (), many)
    done = builder.mul(trips, I64(4 * WIDTH))

    def single(i: Any) -> Sequence[Any]:
        start = builder.add(done, builder.mul(i, I64(WIDTH)))
        columns(start, 1, v.first_lanes(builder.sub(width, start)))
        return ()

    left = builder.sub(width, done)
    loop(builder, builder.sdiv(builder.add(left, I64(WIDTH - 1)), I64(WIDTH)), (), single)


def call_lanes(v: Any, name: str, xs: Sequence[Any]) -> Any:
    """A function of the C library, one number after the other."""
    b, kind = v.builder, ir.FunctionType(v.element, [v.element] * len(xs))
    function = cgutils.get_or_insert_function(b.module, kind, f"llvm.{name}.{v.suffix}")
    with b.goto_block(b.function.entry_basic_block):
        memory = [b.alloca(v.kind) for _ in xs]
    for x, room in zip(xs, memory, strict=True):
        b.store(x, room)
    firsts = [b.bitcast(room, v.element.as_pointer()) for room in memory]

    def lane(i: Any) -> Sequence[Any]:
        b.store(b.call(function, [b.load(b.gep(first, [i])) for first in firsts]), b.gep(firsts[0], [i]))
        return ()

    loop(b, I64(v.lanes), (), lane)
    return b.load(memory[0])


def call_some_lanes(v: Vectors, name: str, x: Any, mask: Any, otherwise: Any) -> Any:
    """A function of the C library, one number after the other where the mask says so: for what hardly ever occurs."""
    b = v.builder
    entry = b.function.entry_basic_block
    with b.goto_block(entry):
        given, results = b.alloca(v.kind), b.alloca(v.kind)
        given.align = results.align = 64

    def called() -> Sequence[Any]:
        b.store(x, given)
        b.store(otherwise, results)
        source, target = (b.bitcast(p, F32.as_pointer()) for p in (given, results))
        function = cgutils.get_or_insert_function(b.module, ir.FunctionType(F32, [F32]), f"llvm.{name}.f32")

        def lane(i: Any) -> Sequence[Any]:
            with b.if_then(b.extract_element(mask, b.trunc(i, I32))):
                b.store(b.call(function, [b.load(b.gep(source, [i]))]), b.gep(target, [i]))
            return ()

        loop(b, I64(v.lanes), (), lane)
        return [b.load(results)]

    none = b.icmp_unsigned("==", b.bitcast(mask, ir.IntType(v.lanes)), ir.IntType(v.lanes)(0))
    return either(b, none, lambda: [otherwise], called)[0]

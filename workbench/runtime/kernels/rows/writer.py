"""What kernels of row programs have in common: their arguments, attributes, the check of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from workbench.framework.expr.expr import Expr
from workbench.framework.rows.kernel import LINES, PLANES, SIZES, RowKernel
from workbench.framework.rows.recording import AT, COUNT, LAST_PLACE
from workbench.runtime.kernels.vectors import I64, Doubles, Vectors, Wholes, loop
from workbench.runtime.words.codes import DECLINED, DONE, ROW_ARGUMENTS

LEVEL = 256  # terms that are added one after the other before their sum is added to others


class KernelWriter:
    """Begins the function of a kernel.

    Attributes:
        ins, outs: addresses by number; sizes: by name; kept: the address of what is kept between rounds.
    """

    def __init__(self, module: Any, kernel: RowKernel, prefix: str) -> None:
        self.kernel, self.rounds = kernel, kernel.rounds
        self.function = ir.Function(module, ir.FunctionType(I64, [I64]), prefix + kernel.name)
        self.builder = b = ir.IRBuilder(self.function.append_basic_block("entry"))
        numbers = Wholes if kernel.is_whole else Doubles if kernel.item == Doubles.item else Vectors
        self.v: Any = numbers(b)
        words = iter(range(ROW_ARGUMENTS, ROW_ARGUMENTS + len(kernel.letters)))
        self.ins = {n: self._word(next(words)) for n, _ in kernel.inputs}
        self.outs = {n: self._word(next(words)) for n, _ in kernel.outputs}
        self.kept = self._word(next(words))
        self._scalars = {name: self._real(next(words)) for name in kernel.program.numbers}
        self._scalars |= {name: self._word(next(words)) for name in kernel.program.integers}
        self.sizes = {name: self._word(next(words)) for name in SIZES[kernel.layout]}
        self.input_kinds, self.output_kinds = dict(kernel.inputs), dict(kernel.outputs)

    def _word(self, number: int) -> Any:
        pointer = self.builder.inttoptr(self.function.args[0], I64.as_pointer())
        return self.builder.load(self.builder.gep(pointer, [I64(number)]))

    def _real(self, number: int) -> Any:
        return self.builder.bitcast(self._word(number), ir.DoubleType())

    def rounded(self, double: Any) -> Any:
        """A float64 as an element."""
        return double if self.v.element == ir.DoubleType() else self.builder.fptrunc(double, self.v.element)

    def widened(self, element: Any) -> Any:
        """An element as float64."""
        return element if self.v.element == ir.DoubleType() else self.builder.fpext(element, ir.DoubleType())

    @property
    def count(self) -> Any:
        """How many elements a row has."""
        if self.kernel.layout == LINES:
            return self.sizes["width"]
        if self.kernel.layout == PLANES:
            return self.builder.mul(self.sizes["batch"], self.sizes["width"])
        return self.sizes["height"]

    def store(self, number: int, x: Any, element: Any, mask: Any) -> None:
        """Store a vector of an output from an element on; places as int64."""
        v, b = self.v, self.builder
        if self.output_kinds[number].is_integer:
            v = Wholes(b)
            x = b.sext(x, v.kind)
        v.store(v.number(x), b.add(self.outs[number], b.mul(element, I64(v.item))), mask)

    def scalar(self, part: Expr) -> Any:
        """What is the same everywhere: float64, or an integer attribute."""
        if part.function == COUNT:
            return self.builder.sitofp(self.count, ir.DoubleType())
        return self._scalars[part.value]

    def times(self, *factors: Any) -> Any:
        """A product of integers."""
        total = I64(1) if not factors else factors[0]
        for factor in factors[1:]:
            total = self.builder.mul(total, factor)
        return total

    def plus(self, *terms: Any) -> Any:
        """A sum of integers."""
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, term)
        return total

    def least(self, a: Any, b: Any) -> Any:
        """The smaller of two integers."""
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def most(self, a: Any, b: Any) -> Any:
        """The larger of two integers."""
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)

    def check_labels(self, count: Any) -> None:
        """Decline, before anything is written, if a label is neither a place of a row nor ignored.

        Args:
            count: how many labels there are.
        """
        b = self.builder
        for label, ignored in self.rounds.labels:
            address, limit, passed = self.ins[label.value], self.count, self._integer(ignored)

            def look(i: Any, bad: Any, address: Any = address, limit: Any = limit, passed: Any = passed) -> Any:
                x = b.load(b.gep(b.inttoptr(address, I64.as_pointer()), [i]))
                outside = b.icmp_unsigned(">=", x, limit)
                return [b.or_(bad, b.and_(outside, b.icmp_signed("!=", x, passed)))]

            (bad,) = loop(b, count, [ir.Constant(ir.IntType(1), 0)], look)
            with b.if_then(bad, likely=False):
                b.ret(I64(DECLINED))

    def _integer(self, part: Expr) -> Any:
        return I64(int(part.value)) if part.function == "constant" else self._scalars[part.value]

    def finish(self) -> None:
        """The end of the kernel."""
        self.builder.ret(I64(DONE))


def uses_places(parts: Sequence[Expr]) -> bool:
    """Whether expressions ask where in its row an element is."""
    rest, seen = list(parts), set[int]()
    while rest:
        part = rest.pop()
        if part.function in (AT, LAST_PLACE):
            return True
        if id(part) not in seen:
            seen.add(id(part))
            rest += part.args
    return False

"""Kernels of row programs: reductions, softmax, cross entropy, norms and what else is made of reductions over rows.

A *team* of threads takes a row (or a column). What it reads of short rows it holds in registers, so memory is read once
however many rounds the program has; of long rows it reads them again in every round. Each thread reduces its elements
in order, then the team does, always in the same order: the bits of a result do not depend on how a launch goes. Sums in
float carry what was lost by rounding, so a long row costs no precision.

* lines and planes: a team lies along the row, a part of a warp, a warp or a block, as long as the row needs;
* columns: 32 rows lie side by side in a block, and threads above each other share one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, named
from workbench.cuda.kernels.numbers import PREAMBLE, NoKernel, applied, load, store, stored
from workbench.cuda.kernels.scans import goes_in_turn, run_text, scans_of, scans_text, start_of
from workbench.framework.expr.expr import Expr
from workbench.framework.rows.kernel import COLUMNS, SIZES, RowKernel
from workbench.framework.rows.passes import Round
from workbench.framework.rows.recording import AT, BESIDE, COUNT, FOLDS, PICK, SCANS, Per
from workbench.framework.values.dtype import as_dtype

WARP = 32
MOST_HELD = 8
"""Elements that a thread holds in registers at most."""
MOST_GRID = 2**31 - 1


class Team(NamedTuple):
    """How threads divide rows among them.

    Attributes:
        size: threads that share a row. rows: of a block.
        held: elements that every thread holds in registers, 0 where rows are too long for that.
    """

    size: int
    rows: int
    held: int

    @property
    def threads(self) -> int:
        return self.size * self.rows


def team_for(layout: str, count: int) -> Team:
    """The team for rows with a count of elements."""
    if layout == COLUMNS:
        size = 1
        while size < WARP and size * 4 < count:
            size *= 2
        return Team(size, WARP, _held(count, size))
    size = 1
    while size < WARP and size < count:
        size *= 2
    if count <= WARP * MOST_HELD:
        return Team(size, 128 // size, _held(count, size))
    size = 128
    while size < 1024 and size * MOST_HELD < count:
        size *= 2
    return Team(size, 1, _held(count, size))


def team_of(one: RowKernel, count: int) -> Team:
    """The team of a kernel: a single thread where each element waits for the one before."""
    if goes_in_turn(one):
        return Team(1, WARP if one.layout == COLUMNS else 128, _held(count, 1))
    return team_for(one.layout, count)


def _held(count: int, size: int) -> int:
    each = max(-(-count // size), 1)
    held = 1 << (each - 1).bit_length()
    return held if held <= MOST_HELD else 0


@dataclass(frozen=True)
class DeviceRows:
    """A kernel of a row program for a GPU.

    Attributes:
        kernel: its operands are those of the row kernel, inputs and outputs in order, then `status`: an int32 that
            becomes 1 if a label is neither a place of a row nor ignored.
        row_kernel: what it was made from. team: how it divides rows.
    """

    kernel: CudaKernel
    row_kernel: RowKernel
    team: Team

    def launch(self, sizes: Sequence[int], attrs: dict[str, Any]) -> Launch:
        """The launch for sizes, in the order of `SIZES`; strides are those of dense arrays."""
        program = self.row_kernel.program
        rows, count = rows_and_count(self.row_kernel.layout, sizes)
        numbers: list[np.generic] = [np.float64(attrs[name]) for name in program.numbers]
        numbers += [np.int64(attrs[name]) for name in program.integers]
        numbers += [np.int64(size) for size in sizes]
        blocks = -(-rows // self.team.rows)
        if blocks > MOST_GRID:
            raise NoKernel(f"{rows} rows are more than one launch takes")
        if team_of(self.row_kernel, count) != self.team:
            raise NoKernel(f"rows of {count} elements have another team than this kernel")
        return Launch((blocks, 1, 1), self._block(), tuple(numbers))

    def _block(self) -> tuple[int, int, int]:
        return (WARP, self.team.size, 1) if self.row_kernel.layout == COLUMNS else (self.team.threads, 1, 1)


def rows_and_count(layout: str, sizes: Sequence[int]) -> tuple[int, int]:
    """How many rows there are, and elements in each."""
    if layout == COLUMNS:
        outer, height, _, columns = sizes
        return outer * columns, height
    batch, _, rows, width = sizes
    return rows, batch * width


def rows_kernel(one: RowKernel, dtypes: Sequence[Any], sizes: Sequence[int]) -> DeviceRows:
    """Make a kernel.

    Args:
        one: the form of a program. dtypes: of its operands in memory: inputs, then outputs, as `one` lists them.
        sizes: for which it is to be launched; it serves all sizes with the same team.
    """
    if one.is_whole:
        raise NoKernel("kernels of rows compute in float or double, which are too short for int64")
    _, count = rows_and_count(one.layout, sizes)
    team = team_of(one, count)
    source = _RowText(one, [as_dtype(d).name for d in dtypes], team)
    body = source.text()
    entry = named(one.program.name, body)
    head = f'\nextern "C" __global__ void __launch_bounds__({team.threads}) {entry}({source.parameters()}) {{\n'
    scans = scans_text(one.layout, team.size) if scans_of(one) else ""
    text = PREAMBLE + team_text(one.layout, team, source.number) + scans + head + body + "}\n"
    operands = (*source.operands, ("status", "int32"))
    return DeviceRows(CudaKernel(entry, text, operands), one, team)


# Teams -----------------------------------------------------------------------------------------------------------

_FOLDED = r"""
struct Sum {
  NUMBER total, lost;
  __device__ __forceinline__ Sum() : total(0), lost(0) {}
  __device__ __forceinline__ void take(NUMBER x) {
    const NUMBER sum = total + x;
    const NUMBER part = sum - total;
    lost += (total - (sum - part)) + (x - part);
    total = sum;
  }
  __device__ __forceinline__ NUMBER value() const { return lost == lost && lost - lost == 0 ? total + lost : total; }
};
struct Product {
  NUMBER total;
  __device__ __forceinline__ Product() : total(1) {}
  __device__ __forceinline__ void take(NUMBER x) { total = total * x; }
  __device__ __forceinline__ NUMBER value() const { return total; }
};
struct Largest {
  NUMBER total;
  __device__ __forceinline__ Largest() : total(-INFINITE) {}
  __device__ __forceinline__ void take(NUMBER x) { total = np_maximum(x, total); }
  __device__ __forceinline__ NUMBER value() const { return total; }
};
struct Smallest {
  NUMBER total;
  __device__ __forceinline__ Smallest() : total(INFINITE) {}
  __device__ __forceinline__ void take(NUMBER x) { total = np_minimum(x, total); }
  __device__ __forceinline__ NUMBER value() const { return total; }
};
__device__ __forceinline__ NUMBER joined(const Sum&, NUMBER a, NUMBER b) { return a + b; }
__device__ __forceinline__ NUMBER joined(const Product&, NUMBER a, NUMBER b) { return a * b; }
__device__ __forceinline__ NUMBER joined(const Largest&, NUMBER a, NUMBER b) { return np_maximum(a, b); }
__device__ __forceinline__ NUMBER joined(const Smallest&, NUMBER a, NUMBER b) { return np_minimum(a, b); }

// Of all threads of a team, for all of them. Lanes meet their partners, so both add the same two numbers.
template <class Fold> __device__ __forceinline__ NUMBER across_lanes(const Fold& fold, NUMBER x, int lanes) {
  for (int apart = lanes / 2; apart > 0; apart /= 2) x = joined(fold, x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}
"""
_IN_A_WARP = r"""
template <class Fold> __device__ __forceinline__ NUMBER of_team(const Fold& fold, NUMBER*) {
  return across_lanes(fold, fold.value(), TEAM);
}
"""
_IN_A_BLOCK = r"""
template <class Fold> __device__ __forceinline__ NUMBER of_team(const Fold& fold, NUMBER* shared) {
  const NUMBER own = across_lanes(fold, fold.value(), 32);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
  __syncthreads();
  const NUMBER all = across_lanes(fold, shared[threadIdx.x % (TEAM / 32)], TEAM / 32);
  __syncthreads();
  return all;
}
"""
_IN_COLUMNS = r"""
template <class Fold> __device__ __forceinline__ NUMBER of_team(const Fold& fold, NUMBER* shared) {
  shared[threadIdx.y * 32 + threadIdx.x] = fold.value();
  __syncthreads();
  NUMBER all = shared[threadIdx.x];
  for (int n = 1; n < TEAM; ++n) all = joined(fold, all, shared[n * 32 + threadIdx.x]);
  __syncthreads();
  return all;
}
"""
_FOLDS = {
    "row_sum": "Sum", "row_prod": "Product", "row_max": "Largest", "row_top": "Largest", "row_min": "Smallest",
}  # fmt: skip


def team_text(layout: str, team: Team, number: str) -> str:
    """What reduces, and how a team does it together."""
    infinite = "__int_as_float(0x7f800000)" if number == "float" else "__longlong_as_double(0x7ff0000000000000)"
    head = f"\n#define NUMBER {number}\n#define INFINITE {infinite}\n#define TEAM {team.size}\n"
    if layout == COLUMNS:
        return head + _FOLDED + _IN_COLUMNS
    return head + _FOLDED + (_IN_A_WARP if team.size <= WARP else _IN_A_BLOCK)


# The kernel ------------------------------------------------------------------------------------------------------

_ADDRESSES = {
    "lines": ("row", "row * width + {k}", "{k}"),
    "planes": ("row", "({k} / width) * stride + row * width + {k} % width", "{k}"),
    "columns": ("row", "((row / rows) * height + {k}) * stride + row % rows", "{k}"),
}
"""Where the number of a row, an element and a place are, by the row and the number `k` of the element."""
_COUNTS = {"lines": "width", "planes": "batch * width", "columns": "height"}
_ROWS = {"lines": "rows", "planes": "rows", "columns": "outer * rows"}


class _Scope:
    """Values at one element, or of one row: each part is computed once, under a name of its own.

    Args:
        leaf: gives what is there already, None for what is to be computed.
    """

    def __init__(self, source: _RowText, leaf: Callable[[_Scope, Expr], str | None], indent: str) -> None:
        self.source, self.leaf, self.indent = source, leaf, indent
        self.lines: list[str] = []
        self.known: dict[int, str] = {}

    def value(self, part: Expr) -> str:
        """The text that stands for a part; without recursion into what is known."""
        name = self.known.get(id(part))
        if name is None:
            name = self.leaf(self, part)
            name = self.source.computed(self, part) if name is None else name
            self.known[id(part)] = name
        return name

    def note(self, text: str, kind: str) -> str:
        """Compute something here."""
        name = self.source.new_name()
        self.lines.append(f"{self.indent}const {kind} {name} = {text};")
        return name


class _RowText:
    """The text of one kernel."""

    def __init__(self, one: RowKernel, dtypes: Sequence[str], team: Team) -> None:
        self.one, self.team, self.rounds = one, team, one.rounds
        self.inputs, self.outputs = dict(one.inputs), dict(one.outputs)
        kinds = iter(dtypes)
        self.dtypes = {("x", n): next(kinds) for n in self.inputs} | {("y", n): next(kinds) for n in self.outputs}
        self.operands = tuple((f"{letter}{n}", dtype) for (letter, n), dtype in self.dtypes.items())
        floats = [d for d in dtypes if as_dtype(d).is_float]
        self.number = "double" if "float64" in floats else "float"
        self.is_columns = one.layout == COLUMNS
        self.names = 0
        self.labels = {id(label): ignored for label, ignored in self.rounds.labels}
        self.row = _Scope(self, self._row_leaf, "  ")
        self.folded: dict[int, str] = {}
        self.arrays: dict[int, str] = {}  # parts of elements that are held from round to round
        self.carries: dict[int, str] = {}  # what is carried on along rows in a round

    def new_name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def parameters(self) -> str:
        program = self.one.program
        given = [f"{stored(dtype)}* {name}" for name, dtype in self.operands]
        given += ["int* status", *(f"double {name}" for name in map(_attr, program.numbers))]
        given += [f"long long {name}" for name in map(_attr, program.integers)]
        return ", ".join([*given, *(f"long long {name}" for name in SIZES[self.one.layout])])

    def text(self) -> str:
        lines = self._begin()
        self.held_inputs = self._read_elements() if self.team.held else []
        lines += self._load_held()
        for one in self.rounds.rounds:
            lines += self._round(one)
        return "\n".join(lines) + "\n"

    # What all kernels begin with

    def _begin(self) -> list[str]:
        layout = self.one.layout
        lines = [f"  const long long count = {_COUNTS[layout]};"]
        if self.is_columns:
            lines += ["  const long long own = blockIdx.x * 32ll + threadIdx.x;", "  const int first = threadIdx.y;"]
        else:
            lines += [
                f"  const long long own = blockIdx.x * {self.team.rows}ll + threadIdx.x / TEAM;",
                "  const int first = threadIdx.x % TEAM;",
            ]
        lines += [f"  const bool is_live = own < {_ROWS[layout]};", "  const long long row = is_live ? own : 0;"]
        if not self.is_columns and self.team.size <= WARP:
            return [*lines, "  NUMBER* const shared = 0;"]
        room = self.team.size * WARP if self.is_columns else WARP
        return [*lines, f"  __shared__ NUMBER shared[{room}];"]

    def _read_elements(self) -> list[int]:
        """The inputs that are read element by element in some round."""
        parts = _until_picks([root for one in self.rounds.rounds for root in one.roots])
        numbers = {p.value for p in parts if p.function == "input"}
        return [n for n in self.inputs if n in numbers and self.inputs[n].per is Per.ELEMENT]

    def _load_held(self) -> list[str]:
        if not self.held_inputs:
            return []
        lines = [f"  NUMBER h{n}[{self.team.held}];" for n in self.held_inputs]
        loads = [f"      h{n}[i] = {self._element(n, 'k')};" for n in self.held_inputs]
        return [*lines, *self._loop(loads)]

    def _loop(self, lines: Sequence[str]) -> list[str]:
        """Lines for every element of a thread."""
        if not lines:
            return []
        if self.team.held:
            head = [
                "  #pragma unroll",
                f"  for (int i = 0; i < {self.team.held}; ++i) {{",
                "    const long long k = first + i * TEAM;",
                "    if (is_live && k < count) {",
            ]
            return [*head, *lines, "    }", "  }"]
        return ["  if (is_live) for (long long k = first; k < count; k += TEAM) {", *lines, "  }"]

    def _stretches(self, one: Round, lines: Sequence[str]) -> list[str]:
        """Lines for every stretch of a row, from its end on if need be: all threads of a team go along."""
        size = self.team.held
        if size:
            loop = f"int i = {size - 1}; i >= 0; --i" if one.is_reversed else f"int i = 0; i < {size}; ++i"
            head = ["  #pragma unroll", f"  for ({loop}) {{", "    const long long at = first + i * TEAM;"]
        else:
            back = "long long begin = (count - 1) / TEAM * TEAM; begin >= 0; begin -= TEAM"
            loop = back if one.is_reversed else "long long begin = 0; begin < count; begin += TEAM"
            head = [f"  for ({loop}) {{", "    const long long at = begin + first;"]
        here = "    const bool is_here = is_live && at < count;"
        return [*head, here, "    const long long k = is_here ? at : 0;", *lines, "  }"]

    # Rounds

    def _round(self, one: Round) -> list[str]:
        for number, expr in one.row_outs:
            where = "first == 0 && is_live"
            line = store(f"y{number}", "row", self._as_number(self.row, expr), self.dtypes["y", number])
            self.row.lines.append(f"  if ({where}) {line}")
        for part in one.row_values:
            self.row.value(part)
        elements = _Scope(self, self._element_leaf, "      ")
        self.carries = {id(scan): self.new_name() for scan in one.scans}
        for scan in one.scans:
            elements.value(scan)
        folds = [(fold, self.new_name()) for fold in one.folds]
        after = [f"      {name}.take({self._as_number(elements, fold.args[0])});" for fold, name in folds]
        after += [self._output(elements, number, expr) for number, expr in one.outs]
        keeps = self._keep(one, elements) if self.team.held else []
        declared = [f"  NUMBER {name}[{self.team.held}];" for name, _ in keeps]
        declared += [f"  {_FOLDS[fold.function]} {name};" for fold, name in folds]
        after += [line for _, line in keeps]
        if one.scans:
            starts = [(*start_of(scan), self.carries[id(scan)]) for scan in one.scans]
            declared += [f"  {kind} {name} = {start};" for kind, start, name in starts]
            after = [f"      if (is_here) {line.strip()}" for line in after]
            loop = self._stretches(one, [*elements.lines, *after])
        else:
            loop = self._loop([*elements.lines, *after])
        before, self.row.lines = self.row.lines, []
        for fold, name in folds:
            total = self.new_name()
            self.folded[id(fold)] = total
            self.row.lines.append(f"  const NUMBER {total} = of_team({name}, shared);")
        rest, self.row.lines = self.row.lines, []
        return [*before, *declared, *loop, *rest]

    def _keep(self, one: Round, elements: _Scope) -> list[tuple[str, str]]:
        """What later rounds need of costly functions stays in registers, too: (array, line that fills it)."""
        keeps = []
        for part in one.kept:
            name = self.new_name()
            keeps.append((name, f"      {name}[i] = {elements.value(part)};"))
            self.arrays[id(part)] = name
        return keeps

    def _output(self, elements: _Scope, number: int, expr: Expr) -> str:
        value = self._as_number(elements, expr)
        per = self.outputs[number].per
        at = self._address(per, "k")
        return "      " + store(f"y{number}", at, value, self.dtypes["y", number])

    # Leaves

    def _address(self, per: Per, k: str) -> str:
        of_row, of_element, of_place = _ADDRESSES[self.one.layout]
        return {Per.ROW: of_row, Per.ELEMENT: of_element, Per.PLACE: of_place}[per].format(k=k)

    def _element(self, number: int, k: str) -> str:
        text = load(f"x{number}", self._address(self.inputs[number].per, k))
        return text if self.inputs[number].is_integer else f"(NUMBER){text}"

    def _row_leaf(self, scope: _Scope, part: Expr) -> str | None:
        if part.function in FOLDS:
            return self.folded[id(part)]
        if part.function == "input":
            operand = self.inputs[part.value]
            text = self._element(part.value, "0")
            name = scope.note(text, "long long" if operand.is_integer else "NUMBER")
            return self._checked(scope, part, name) if id(part) in self.labels else name
        return None

    def _checked(self, scope: _Scope, label: Expr, name: str) -> str:
        """A label that is a place of a row; one that is not becomes -1, which no place is, and is told."""
        ignored = self._integer(self.labels[id(label)])
        scope.lines.append(
            f"  if (is_live && first == 0 && {name} != {ignored} && ({name} < 0 || {name} >= count)) "
            "atomicMax(status, 1);"
        )
        return scope.note(f"{name} != {ignored} && {name} >= 0 && {name} < count ? {name} : -1", "long long")

    def _element_leaf(self, scope: _Scope, part: Expr) -> str | None:
        if id(part) in self.arrays:
            return f"{self.arrays[id(part)]}[i]"
        kind = self.rounds.kinds[id(part)]
        if kind in (Per.ROW, Per.ALL):
            return self.row.value(part)
        if part.function in SCANS:
            return self._run(scope, part)
        if part.function == BESIDE:
            return self._beside(scope, part)
        if part.function == "input":
            is_held = part.value in self.held_inputs
            integer = self.inputs[part.value].is_integer
            text = f"h{part.value}[i]" if is_held else self._element(part.value, "k")
            return text if is_held else scope.note(text, "long long" if integer else "NUMBER")
        if part.function == AT:
            return scope.note(f"k == {self.row.value(part.args[0])}", "bool")
        return None

    def _run(self, scope: _Scope, part: Expr) -> str:
        if id(part) not in self.carries:
            raise NoKernel("what runs along a row is needed once more, and rows are too long to hold it")
        operands = [scope.value(a) if a.dtype == bool else self._as_number(scope, a) for a in part.args]
        kind, text = run_text(
            part, operands, self.carries[id(part)], lambda line: scope.lines.append(scope.indent + line)
        )
        return scope.note(text, kind)

    def _beside(self, scope: _Scope, part: Expr) -> str:
        """The element before or behind, the number outside where there is none."""
        step, outside = part.value
        is_inside = "k > 0" if step < 0 else "k + 1 < count"
        there = self._element(part.args[0].value, f"(k + ({step}))")
        return scope.note(f"{is_inside} ? {there} : (NUMBER){_real(outside)}", "NUMBER")

    # What is computed

    def computed(self, scope: _Scope, part: Expr) -> str:
        """A part that is no leaf."""
        if part.function == "constant":
            return f"((NUMBER){_real(part.value)})"
        if _is_one(part):
            return self.row.note(f"(NUMBER)({self._one(part)})", "NUMBER")
        if part.function == PICK:
            return self._picked(scope, part)
        if part.function == "cast":
            return self._cast(scope, part)
        if part.function in ("equal", "not_equal") and any(a.dtype == np.int64 for a in part.args):
            a, b = (self._integer(x) if _is_one(x) else self._raw_label(scope, x) for x in part.args)
            return scope.note(f"{a} {'==' if part.function == 'equal' else '!='} {b}", "bool")
        if part.function == "where":
            mask = scope.value(part.args[0])
            x, y = (self._as_number(scope, a) for a in part.args[1:])
            return scope.note(f"{mask} ? {x} : {y}", "NUMBER")
        operands = [self._operand(scope, a) for a in part.args]
        kind = "bool" if part.dtype == bool else "NUMBER"
        are_truths = all(a.dtype == bool for a in part.args)
        function = part.function.replace("bitwise", "logical") if are_truths else part.function
        return scope.note(applied(function, operands, self.number), kind)

    def _operand(self, scope: _Scope, part: Expr) -> str:
        return self._as_number(scope, part)

    def _as_number(self, scope: _Scope, part: Expr) -> str:
        value = scope.value(part)
        return f"(NUMBER){value}" if part.dtype == bool else value

    def _cast(self, scope: _Scope, part: Expr) -> str:
        if as_dtype(part.value).name == "bool":
            return scope.note(f"{scope.value(part.args[0])} != 0", "bool")
        return scope.note(self._as_number(scope, part.args[0]), "NUMBER")

    def _raw_label(self, scope: _Scope, part: Expr) -> str:
        """A label that is compared with what marks ignored ones: as it lies in memory."""
        return self.row.note(self._element(part.value, "0"), "long long")

    def _one(self, part: Expr) -> str:
        """A number that is the same everywhere, computed in double as Python does."""
        if part.function == "constant":
            return _real(part.value)
        if part.function == COUNT:
            return "(double)count"
        if part.function == "number":
            return f"(double){_attr(part.value)}"
        signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
        if part.function == "negative":
            return f"(-{self._one(part.args[0])})"
        return f"({f' {signs[part.function]} '.join(map(self._one, part.args))})"

    def _integer(self, part: Expr) -> str:
        return f"{int(part.value)}ll" if part.function == "constant" else _attr(part.value)

    def _picked(self, scope: _Scope, part: Expr) -> str:
        """The element that a label names, 0 where it is ignored: it alone is computed."""
        x, label, _ = part.args
        place = self.row.value(label)
        at = self.row.note(f"{place} < 0 ? 0 : {place}", "long long")

        def leaf(inner_scope: _Scope, inner: Expr) -> str | None:
            if self.rounds.kinds[id(inner)] in (Per.ROW, Per.ALL):
                return self.row.value(inner)
            if inner.function == "input":
                return inner_scope.note(self._element(inner.value, at), "NUMBER")
            return None

        inside = _Scope(self, leaf, "    ")
        value = self._as_number(inside, x)
        name = self.new_name()
        self.row.lines += [f"  NUMBER {name} = 0;", f"  if (is_live && {place} >= 0) {{"]
        self.row.lines += [*inside.lines, f"    {name} = {value};", "  }"]
        return name


def _attr(name: str) -> str:
    return f"a_{name}"


def _real(value: Any) -> str:
    number = float(value)
    if number != number:
        return "__longlong_as_double(0x7ff8000000000000)"
    if number in (float("inf"), float("-inf")):
        return f"__longlong_as_double(0x{'7' if number > 0 else 'f'}ff0000000000000)"
    return f"({number.hex()})"


def _is_one(part: Expr) -> bool:
    """Whether a part is arithmetic on numbers that are the same everywhere."""
    if part.function in ("number", COUNT, "constant"):
        return True
    return part.function in ("add", "subtract", "multiply", "divide", "negative") and all(map(_is_one, part.args))


def _until_picks(roots: Sequence[Expr]) -> list[Expr]:
    """All parts, but for those that reductions and look-ups have made one number per row of."""
    parts: dict[int, Expr] = {}
    rest = list(roots)
    while rest:
        part = rest.pop()
        if id(part) not in parts:
            parts[id(part)] = part
            rest += () if part.function in (*FOLDS, PICK, BESIDE) else part.args
    return list(parts.values())

"""Random programs in bfloat16, float16 and float32, in every mode: `python -m tests.fuzz.precision --cases 2000`.

A program is a list of steps over rows: each makes a value of earlier ones. It runs in dynamic mode, in a static program
and captured, on one to three devices. The reference computes in float64 and carries a bound along with every value:

    a step adds at most u |y| to the error, where u is the unit roundoff of the dtype of its result y: 2^-8 for
    bfloat16, 2^-11 for float16, 2^-24 for float32; and 2^-20 times the sum of magnitudes for what is summed inside.

What comes in is passed on by the derivative of the step. A result beyond the bound is wrong, and so is one of another
dtype than in dynamic mode. Gradients are those of the same program in float64, within a multiple of u of the largest.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from random import Random
from typing import Any, NamedTuple

import numpy as np

import workbench as wb
from workbench import static
from workbench.errors import EnforceNotMet
from workbench.framework.program.guard import static_mode

ROWS, WIDTH = 6, 8
ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
_SMALLEST = {"bfloat16": 2.0**-133, "float16": 2.0**-24, "float32": 2.0**-149, "float64": 0.0}
_INSIDE = 2.0**-20  # of sums and functions, which are computed in float32
_GRADIENT = 64  # roundoffs of the largest entry
MODES = ("dynamic", "static", "captured", "to_static")
HALVES = ("bfloat16", "float16")
Array = np.ndarray


class Bounded(NamedTuple):
    """Exact values and how far a result may be from them."""

    value: Array
    error: Array


class Step(NamedTuple):
    """A step: its name in `STEPS`, the numbers of the values it works on, and a dtype for a cast."""

    name: str
    operands: tuple[int, ...]
    dtype: str = ""


def _product(a: Bounded, b: Bounded, multiply: Callable[[Array, Array], Array] = np.multiply) -> Bounded:
    error = multiply(abs(a.value), b.error) + multiply(a.error, abs(b.value)) + multiply(a.error, b.error)
    return Bounded(multiply(a.value, b.value), error)


def _monotonic(function: Callable[[Array], Array]) -> Callable[[Bounded], Bounded]:
    """A function that only rises: the values at both ends of what may come in are the bounds."""

    def bounded(a: Bounded) -> Bounded:
        y = function(a.value)
        ends = (function(a.value - a.error), function(a.value + a.error))
        return Bounded(y, np.maximum(abs(ends[0] - y), abs(ends[1] - y)) + _INSIDE * abs(y))

    return bounded


def _summed(a: Bounded, scale: float) -> Bounded:
    error = (a.error + _INSIDE * abs(a.value)).sum(-1, keepdims=True)
    return Bounded(a.value.sum(-1, keepdims=True) * scale, error * scale)


def _softmax(a: Bounded) -> Bounded:
    exps = np.exp(a.value - a.value.max(-1, keepdims=True))
    y = exps / exps.sum(-1, keepdims=True)
    return Bounded(y, y * (np.expm1(2 * a.error.max(-1, keepdims=True)) + 2 * _INSIDE))


def _matmul(a: Bounded, w: Bounded) -> Bounded:
    y = _product(a, w, np.matmul)
    return y._replace(error=y.error + _INSIDE * (abs(a.value) @ abs(w.value)))


def _largest(a: Bounded, b: Bounded) -> Bounded:
    return Bounded(np.maximum(a.value, b.value), np.maximum(a.error, b.error))


def _both(function: Callable[[Array], Array]) -> Callable[[Bounded], Bounded]:
    """The same to values and errors: what only moves them."""
    return lambda a: Bounded(function(a.value), function(a.error))


F = wb.nn.functional
_W = -1  # the operand that is the parameter

STEPS: dict[str, tuple[int, Callable[..., Any], Callable[..., Bounded]]] = {
    "tanh": (1, wb.tanh, _monotonic(np.tanh)),
    "sigmoid": (1, F.sigmoid, _monotonic(lambda x: 1 / (1 + np.exp(-x)))),
    "relu": (1, F.relu, _monotonic(lambda x: np.maximum(x, 0))),
    "exp": (1, lambda x: wb.exp(wb.tanh(x)), _monotonic(lambda x: np.exp(np.tanh(x)))),
    "half": (1, lambda x: wb.scale(x, 0.5), _both(lambda x: x * 0.5)),
    "square": (1, lambda x: wb.square(wb.tanh(x)), lambda a: _square(_monotonic(np.tanh)(a))),
    "softmax": (1, lambda x: F.softmax(x, axis=-1), _softmax),
    "mean": (1, lambda x: x - wb.mean(x, axis=-1, keepdim=True), lambda a: _less(a, _summed(a, 1 / WIDTH))),
    "sum": (
        1,
        lambda x: wb.tanh(wb.sum(x, axis=-1, keepdim=True)) * x,
        lambda a: _product(_monotonic(np.tanh)(_summed(a, 1.0)), a),
    ),
    "turned": (
        1,
        lambda x: wb.reshape(wb.transpose(wb.reshape(x, [-1, 2, WIDTH // 2]), [0, 2, 1]), [-1, WIDTH]),
        _both(lambda x: x.reshape(-1, 2, WIDTH // 2).transpose(0, 2, 1).reshape(-1, WIDTH)),
    ),
    "swapped": (
        1,
        lambda x: wb.concat([x[:, WIDTH // 2 :], x[:, : WIDTH // 2]], axis=1),
        _both(lambda x: np.concatenate([x[:, WIDTH // 2 :], x[:, : WIDTH // 2]], 1)),
    ),
    "cast": (1, lambda x, dtype: wb.cast(x, dtype), lambda a: a),
    "add": (2, lambda x, y: x + y, lambda a, b: Bounded(a.value + b.value, a.error + b.error)),
    "subtract": (2, lambda x, y: x - y, lambda a, b: _less(a, b)),
    "multiply": (2, lambda x, y: wb.tanh(x) * y, lambda a, b: _product(_monotonic(np.tanh)(a), b)),
    "maximum": (2, wb.maximum, _largest),
    "matmul": (1, lambda x, w: wb.scale(wb.matmul(x, wb.cast(w, x.dtype)), 0.25), lambda a, w: _quarter(_matmul(a, w))),
}  # fmt: skip


def _square(a: Bounded) -> Bounded:
    return Bounded(a.value**2, 2 * abs(a.value) * a.error + a.error**2)


def _less(a: Bounded, b: Bounded) -> Bounded:
    return Bounded(a.value - b.value, a.error + b.error)


def _quarter(a: Bounded) -> Bounded:
    return Bounded(a.value * 0.25, a.error * 0.25)


_INNER = {"exp": 1, "square": 1, "mean": 1, "sum": 2, "multiply": 1, "matmul": 2}  # results within a step, rounded too


class LowProgram(NamedTuple):
    """A random program.

    Attributes:
        dtypes: of the input, the parameter. steps: what is computed. amp: the dtype of `auto_cast` around, or "".
        numbers: seed of what is fed.
    """

    dtypes: tuple[str, str]
    steps: tuple[Step, ...]
    amp: str
    numbers: int

    def compute(self, x: Any, w: Any, widened: bool = False) -> Any:
        """The last value, in whichever mode is on; `widened`: casts are to float64."""
        values = [x]
        for step in self.steps:
            _, function, _ = STEPS[step.name]
            operands = [values[i] for i in step.operands]
            if step.name == "cast":
                operands.append("float64" if widened else step.dtype)
            values.append(function(*operands, w) if step.name == "matmul" else function(*operands))
        return values[-1]

    def fed(self) -> tuple[Array, Array]:
        """The input and the parameter, in float32."""
        rng = np.random.default_rng(self.numbers)
        return rng.standard_normal((ROWS, WIDTH)).astype("float32"), rng.standard_normal((WIDTH, WIDTH)).astype(
            "float32"
        )

    def bound(self, x: Array, w: Array) -> tuple[Bounded, float]:
        """The last value with its error, and the roundoff of the coarsest dtype there is."""
        dtypes = [self.dtypes[0]]
        none = [Bounded(a.astype(float), np.zeros(a.shape)) for a in (x, w)]
        values, weight = [none[0]], none[1]
        for step in self.steps:
            _, _, rule = STEPS[step.name]
            dtype = step.dtype if step.name == "cast" else dtypes[step.operands[0]]
            operands = [values[i] for i in step.operands]
            if step.name == "matmul":
                operands.append(_rounded(weight, dtype, self.amp))
            y = rule(*operands)
            for _ in range(1 + _INNER.get(step.name, 0)):
                y = _rounded(y, dtype, self.amp, np.abs(operands[0].value).max(-1, keepdims=True))
            values.append(y)
            dtypes.append(dtype)
        used = {*dtypes, self.dtypes[1], self.amp or "float64"}
        return values[-1], max(ROUNDOFF[dtype] for dtype in used)


def _rounded(a: Bounded, dtype: str, amp: str, inner: Array | float = 0.0) -> Bounded:
    """A result in memory; `inner`: how large results within the step may have been, which were rounded, too."""
    u = max(ROUNDOFF[dtype], ROUNDOFF[amp] if amp else 0.0)
    size = abs(a.value) + a.error + inner
    return a._replace(error=a.error + u * size * 1.01 + _SMALLEST[dtype])


def random_program(seed: int, index: int) -> LowProgram:
    """A program, by the seed of all and its own number."""
    random = Random(f"precision/{seed}/{index}")
    dtypes = [random.choice((*HALVES, *HALVES, "float32"))]
    first = dtypes[0]
    steps = []
    for _ in range(random.randint(2, 9)):
        name = random.choice([*STEPS, "cast", "matmul"])
        a = random.randrange(max(0, len(dtypes) - 3), len(dtypes))
        alike = [i for i, dtype in enumerate(dtypes) if dtype == dtypes[a]]
        operands = (a, random.choice(alike)) if STEPS[name][0] == 2 else (a,)
        dtype = random.choice((*HALVES, "float32")) if name == "cast" else dtypes[a]
        steps.append(Step(name, operands, dtype if name == "cast" else ""))
        dtypes.append(dtype)
    amp = random.choice(("", "", "", *HALVES))
    return LowProgram((first, random.choice((*HALVES, "float32"))), tuple(steps), amp, random.randrange(1 << 30))


class Result(NamedTuple):
    """What a mode gives: the value, and the gradients by the input and the parameter where there are any."""

    value: Array
    dtype: str
    gradients: tuple[Array, ...]


def run(program: LowProgram, mode: str, devices: int, x: Array, w: Array) -> Result:
    """One run in a mode, on so many devices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _static(program, devices, x, w) if mode == "static" else _dynamic(program, mode, devices, x, w)


def _dynamic(program: LowProgram, mode: str, devices: int, x: Array, w: Array) -> Result:
    ours, weight = _leaf(x, program.dtypes[0]), _leaf(w, program.dtypes[1])
    function: Callable[[Any], Any] = lambda given: program.compute(given, weight)  # noqa: E731
    with _amp(program.amp):
        if mode == "captured":
            y = wb.jit.capture(function, devices=devices)(ours.detach())
            return Result(_wide(y), y.dtype.name, ())
        y = (wb.jit.to_static(function) if mode == "to_static" else function)(ours)
    wb.sum(wb.cast(y, "float32")).backward()
    return Result(_wide(y), y.dtype.name, tuple(_slope(leaf) for leaf in (ours, weight)))


def _static(program: LowProgram, devices: int, x: Array, w: Array) -> Result:
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    fed, held = _leaf(x, program.dtypes[0]).numpy(), _leaf(w, program.dtypes[1]).numpy()
    with static_mode(), static.program_guard(main, startup):
        given = static.data("x", [None, WIDTH], program.dtypes[0])
        weight = static.create_parameter(w.shape, program.dtypes[1], "w")
        y = program.compute(given, weight)
        compiled = static.CompiledProgram(main).with_data_parallel(places=static.cpu_places(devices))
        exe = static.Executor()
        exe.run(startup, scope=scope)
        scope.find_var("w").get_tensor().set(held)
        (value,) = exe.run(compiled, feed={"x": fed}, fetch_list=[y], scope=scope)
    return Result(np.asarray(value).astype(float), y.dtype.name, ())


def _amp(dtype: str) -> Any:
    return wb.amp.auto_cast(level="O1", dtype=dtype) if dtype else nullcontext()


def _leaf(array: Array, dtype: str) -> Any:
    tensor = wb.cast(wb.to_tensor(array), dtype)
    tensor.stop_gradient = False
    return tensor


def _wide(tensor: Any) -> Array:
    return wb.cast(tensor.detach(), "float64").numpy()


def _slope(leaf: Any) -> Array:
    return np.zeros(leaf.shape) if leaf.grad is None else _wide(leaf.grad)


def examine(program: LowProgram) -> tuple[str, str]:
    """What became of a program: a word for it, and details."""
    x, w = (_wide(_leaf(a, dtype)) for a, dtype in zip(program.fed(), program.dtypes, strict=True))
    exact, roundoff = program.bound(x, w)
    try:
        dynamic = run(program, "dynamic", 1, x, w)
    except EnforceNotMet as error:
        return "refused", str(error)
    for mode in MODES:
        if mode == "static" and program.amp:
            continue  # auto_cast is for dynamic mode
        for devices in (1, 2, 3) if mode in ("static", "captured") else (1,):
            where = f"{mode} on {devices}"
            try:
                result = dynamic if mode == "dynamic" else run(program, mode, devices, x, w)
            except EnforceNotMet as error:
                return "REFUSED", f"{where}: {error}"
            if problem := _wrong(result, dynamic, exact):
                return "WRONG", f"{where}: {problem}"
            if problem := _wrong_gradients(program, result, x, w, roundoff):
                return "WRONG GRADIENT", f"{where}: {problem}"
    return "within the bound", ""


def _wrong(result: Result, dynamic: Result, exact: Bounded) -> str:
    if result.dtype != dynamic.dtype or result.value.shape != exact.value.shape:
        return f"{result.dtype}{result.value.shape}, {dynamic.dtype}{exact.value.shape} in dynamic mode"
    beyond = abs(result.value - exact.value) > exact.error
    if not (beyond | np.isnan(result.value)).any():
        return ""
    at = tuple(np.argwhere(beyond | np.isnan(result.value))[0])
    return f"{result.value[at]} at {at}, expected {exact.value[at]} ± {exact.error[at]:.2g}"


def _wrong_gradients(program: LowProgram, result: Result, x: Array, w: Array, roundoff: float) -> str:
    if not result.gradients:
        return ""
    leaves = [_leaf(a, "float64") for a in (x, w)]
    wb.sum(program.compute(*leaves, widened=True)).backward()
    for name, leaf, gradient in zip("xw", leaves, result.gradients, strict=True):
        wanted = _slope(leaf)
        allowed = _GRADIENT * roundoff * (abs(wanted).max() + 1.0)
        if not (abs(gradient - wanted) <= allowed).all():
            return f"gradient of {name} is {abs(gradient - wanted).max():.3g} off, {allowed:.3g} allowed"
    return ""


def run_all(seed: int, numbers: Sequence[int]) -> Counter[str]:
    """How many programs came to which end; those that are wrong are told."""
    counts: Counter[str] = Counter()
    for index in numbers:
        program = random_program(seed, index)
        word, details = examine(program)
        counts[word] += 1
        if word.isupper():
            print(f"{word} {index}: {details}\n{program}\n", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    given = parser.parse_args()
    np.seterr(all="ignore")
    counts = run_all(given.seed, range(given.first, given.first + given.cases))
    print("\n".join(f"{count:7,}  {word}" for word, count in counts.most_common()))
    return int(any(word.isupper() for word in counts))


if __name__ == "__main__":
    sys.exit(main())

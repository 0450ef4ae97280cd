"""Runs mutants by the tape and by calls: `python -m tests.fuzz.both SEED FIRST COUNT`, a line of JSON for each.

A line is written before a mutant runs and after, so that whoever reads them knows which one has ended the process.
"""

from __future__ import annotations

import json
import resource
import sys
import traceback
import warnings
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.corpus import seed, seeds
from tests.fuzz.mutate import Mutant
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet
from workbench.experiments.bench.roofline import rows_by_lowering
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import check_program
from workbench.framework.text.parser import parse_program
from workbench.framework.text.serialize import program_from_json
from workbench.runtime import devices
from workbench.runtime.device import CPUDevice

MOST_MEMORY = 6 << 30
_CLOSE = 2e-4


class Outcome:
    """What running a program has led to: arrays by name, or an error."""

    def __init__(self, arrays: dict[str, np.ndarray] | None, error: Exception | None = None, native: int = 0) -> None:
        self.arrays, self.error, self.native = arrays, error, native

    @property
    def is_clear(self) -> bool:
        return isinstance(self.error, EnforceNotMet)

    def __str__(self) -> str:
        if self.error is None:
            return "ran"
        return "".join(traceback.format_exception(self.error))[-3000:]


def mutant(number: int, index: int) -> Mutant:
    """A mutant, by the seed of all and its own number."""
    random = Random(f"{number}/{index}")
    count, chosen = len(seeds()), None
    while chosen is None:
        chosen = seed(random.randrange(count))
    return Mutant(chosen, random)


def run(mutant: Mutant, values: dict[str, np.ndarray], fetches: list[str], tape: bool) -> Outcome:
    """One step, and what is in the scope then."""
    native = 0
    try:
        program = read(mutant)
        scope, block = static.Scope(), program.global_block()
        feed = {n: v for n, v in values.items() if block.var(n).is_data}
        for name in values.keys() - feed.keys():
            scope.var(name).get_tensor().set(values[name])
        with override(cpu_tape=tape), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = static.CompiledProgram(program)
            if mutant.seed.loss is not None:
                compiled = compiled.with_data_parallel(mutant.seed.loss, places=static.cpu_places(mutant.devices))
            fetched = static.Executor().run(compiled, feed=feed, fetch_list=fetches, scope=scope)
            if tape:
                native, _ = rows_by_lowering(compiled.inspection.last)
    except Exception as error:
        return Outcome(None, error)
    arrays = dict(zip(fetches, fetched, strict=True))
    arrays.update({f"{n} in the scope": np.array(scope.find_var(n).get_tensor()) for n in values.keys() - feed.keys()})
    return Outcome(arrays, native=native)


def read(mutant: Mutant) -> Program:
    return parse_program(mutant.source) if mutant.form == "text" else program_from_json(mutant.source)


def examine(mutant: Mutant) -> tuple[str, str]:
    """What became of a mutant: a word for it, and details."""
    try:
        program = read(mutant)
    except EnforceNotMet:
        return "refused when read", ""
    except Exception:
        return "UNCLEAR", traceback.format_exc()
    try:
        check_program(program)
    except EnforceNotMet:
        return "refused by the checker", ""
    except Exception:
        return "UNCLEAR", traceback.format_exc()
    values, fetches = mutant.values(program), _fetches(mutant, program)
    calls, tape = (run(mutant, values, fetches, tape) for tape in (False, True))
    return _verdict(mutant, values, fetches, calls, tape)


def _fetches(mutant: Mutant, program: Program) -> list[str]:
    block = program.global_block()
    written = [n for op in block.ops for n in op.output_arg_names if n in block.vars and block.vars[n].kind == "dense"]
    names = list(dict.fromkeys(n for n in written if not block.vars[n].persistable))
    return Random(mutant.numbers).sample(names, min(len(names), 4)) + names[-2:] if names else []


def _verdict(
    mutant: Mutant, values: dict[str, np.ndarray], fetches: list[str], calls: Outcome, tape: Outcome
) -> tuple[str, str]:
    if calls.error is not None or tape.error is not None:
        if calls.error is None or tape.error is None:
            return "DISAGREE", f"calls: {calls}\ntape: {tape}"
        if not (calls.is_clear and tape.is_clear):
            return "UNCLEAR", f"calls: {calls}\ntape: {tape}"
        return "refused by both when run", str(tape.error)
    differing = [n for n in calls.arrays or () if not _same(calls.arrays[n], tape.arrays[n], _CLOSE)]  # type: ignore[index]
    if not differing:
        return ("equal, in kernels" if tape.native else "equal, by calls alone"), ""
    moved = {n: v * np.asarray(1 + 1e-6, v.dtype) if v.dtype.kind == "f" else v for n, v in values.items()}
    nudged = run(mutant, moved, fetches, tape=False)
    firm = [n for n in differing if nudged.arrays is None or _same(calls.arrays[n], nudged.arrays[n], _CLOSE)]  # type: ignore[index]
    if not firm:
        return "equal but for what the sixth digit of a feed decides", ""
    name = firm[0]
    return "DISAGREE", f"{name}\ncalls: {calls.arrays[name]!r}\ntape: {tape.arrays[name]!r}"  # type: ignore[index]


def _same(a: np.ndarray, b: np.ndarray, close: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    finite = a[np.isfinite(a)]
    scale = float(np.abs(finite).max(initial=0.0))
    loose = max(close, 20 * float(np.finfo(a.dtype).eps))
    return bool(np.allclose(a, b, rtol=loose, atol=loose * scale + 1e-6, equal_nan=True))


class _Poisoned(CPUDevice):
    """Memory that is full of NaN at first: what is read before it is written shows."""

    def allocate(self, nbytes: int) -> Any:
        memory = super().allocate(nbytes)
        memory.array(0, (nbytes,), np.dtype(np.uint8))[...] = 0xFF
        return memory


def describe(mutant: Mutant) -> dict[str, Any]:
    """What is needed to look at a mutant without this code."""
    return {"done": mutant.done, "form": mutant.form, "devices": mutant.devices, "source": mutant.source}


def main(number: int, first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    devices._KINDS["cpu"] = _Poisoned
    np.seterr(all="ignore")
    for index in range(first, first + count):
        example = mutant(number, index)
        print(json.dumps({"begins": index}), flush=True)
        verdict, details = examine(example)
        line: dict[str, Any] = {"index": index, "verdict": verdict, "done": example.done}
        if verdict.isupper() or verdict.split()[0].isupper():
            line |= {"details": details, "mutant": describe(example)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))

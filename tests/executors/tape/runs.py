"""Small programs run as a tape and as NumPy calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.parallel.models import devices
from workbench import static
from workbench.config import override
from workbench.executors.lowering.tape.segment import Segment
from workbench.runtime.native import library

FRAME = {"fill_any_like"}  # ops that are there only to compare gradients


@contextmanager
def tape() -> Iterator[None]:
    """Steps run in kernels inside; skips the test where there are none."""
    with override(cpu_tape=True):
        if library.kernels() is None:
            pytest.skip(f"no compiled kernels: {library.why_not()}")
        yield


def run(
    built: Built, feed: dict[str, Any], fetch: Sequence[Any], loss: Any = None
) -> tuple[list[np.ndarray], set[str]]:
    """What a program gives on one device, and the types of ops that ran as NumPy calls."""
    scope = static.Scope()
    if built.startup.global_block().ops:
        static.Executor().run(built.startup, scope=scope)
    with devices(1):
        name = None if loss is None else loss.name
        exe = static.ParallelExecutor(use_cuda=False, main_program=built.main, scope=scope, loss_name=name)
    fetched = [np.array(a) for a in exe.run([v.name for v in fetch], feed=feed)]
    binding = exe.inspection.last
    units = [unit for program in (*binding.speculative, *binding.commit) for unit in program.units]
    return fetched, {unit.row.node.type for unit in units if not isinstance(unit, Segment)}


def compare(body: Callable[..., Any], feed: dict[str, np.ndarray], rtol: float = 2e-5, atol: float = 2e-6) -> set[str]:
    """Check that a program and its gradients are the same both ways; the ops that ran as NumPy calls in the tape.

    Args:
        body: `body(*variables)`, one for each array of the feed, gives what is compared, a list.
    """
    with Built() as built:
        inputs = [static.data(n, list(a.shape), str(a.dtype)) for n, a in feed.items()]
        for x in inputs:
            x.stop_gradient = False
        outs = body(*inputs)
        floating = [x for x in inputs if x.dtype.is_float]
        weights = [static.data(f"weight_{i}", list(out.shape), "float32") for i, out in enumerate(outs)]
        loss = wb.add_n([wb.sum(out * w) for out, w in zip(outs, weights, strict=True)])
        grads = [g for g in static.gradients(loss, floating) if g is not None] if floating else []
    rng = np.random.default_rng(1)
    given = {w.name: rng.standard_normal(w.shape).astype(np.float32) for w in weights}
    fetch = [*outs, *grads]
    with override(cpu_tape=False):
        expected, _ = run(built, {**feed, **given}, fetch, loss)
    with tape():
        fetched, by_numpy = run(built, {**feed, **given}, fetch, loss)
    for variable, a, b in zip(fetch, fetched, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * (1 + np.abs(b).max(initial=0)), err_msg=variable.name)
    return by_numpy - FRAME

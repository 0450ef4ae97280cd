"""Batches, scopes and programs that change between runs, and what an executor keeps of them."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.parallel.models import batch, classifier
from tests.parallel.observe import costly_ops
from tests.parallel.threads.test_threads import NAMES, PARTS, NumpyReplicas, Serially, quadratic, threads
from workbench import static
from workbench.config import override
from workbench.executors.running.finding.plan_cache import bytes_kept_for
from workbench.framework.notice import Notice
from workbench.runtime.arena import Arena

# What changes between runs


def parts_of(feed: Any, sizes: Sequence[int]) -> PARTS:
    ends = np.cumsum(sizes)
    return [
        {name: array[end - size : end] for name, array in feed.items()} for end, size in zip(ends, sizes, strict=True)
    ]


@pytest.mark.parametrize("interval", [100, 1])
@pytest.mark.parametrize("count", [1, 4])
def test_batches_of_64_64_7_64(count: int, interval: int) -> None:
    model = classifier().start()
    reference = Serially(model)
    with costly_ops():
        exe = model.parallel(2, exec_strategy=threads(count, num_iteration_per_drop_scope=interval))
        for seed, rows in enumerate([64, 64, 7, 64]):
            feed = batch(rows, seed)
            expected = reference.step(parts_of(feed, [rows // 2, rows - rows // 2]))
            reference.agrees(exe, exe.run([model.loss], feed=feed)[0], expected)


@pytest.mark.parametrize("interval", [100, 1])
def test_shapes_that_vary_between_devices_and_runs(interval: int) -> None:
    model = classifier().start()
    reference = Serially(model)
    with costly_ops():
        exe = model.parallel(3, exec_strategy=threads(3, num_iteration_per_drop_scope=interval))
        for seed, sizes in enumerate([(4, 4, 4), (1, 9, 2), (9, 1, 2), (30, 30, 1), (1, 9, 2), (4, 4, 4)]):
            parts = parts_of(batch(sum(sizes), seed), sizes)
            reference.agrees(exe, exe.run([model.loss], feed=parts)[0], reference.step(parts))


def test_X_24_set_between_runs_changes_device_0_only() -> None:
    """The others go on from their own values; the gradient summed over devices is the same for both."""
    model = quadratic().start()
    exe, shared = model.parallel(2), {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    reference = NumpyReplicas(shared, 2, ["w", "b"])
    for k, x in enumerate(np.random.default_rng(1).uniform(-1, 1, (8, 4, 1)).astype(np.float32)):
        if k in (2, 5):
            model.scope.find_var(NAMES["w"]).set(np.full((1, 1), k, np.float32))
            model.scope.find_var(NAMES["vb"]).set(np.full(1, 0.25, np.float32))
            shared.update(w=float(k), vb=0.25)
        np.testing.assert_allclose(exe.run([model.loss], feed={"X": x})[0], reference.step(np.split(x, 2)), rtol=1e-4)
        weights = [np.array(exe.local_scope(i).find_var(NAMES["w"]).get_tensor()).item() for i in range(2)]
        np.testing.assert_allclose(weights, [values["w"] for values in reference.values], rtol=1e-4)
        assert (abs(weights[0] - weights[1]) > 0.1) == (k >= 2)


def test_saved_parameters_loaded_between_runs(tmp_path: Any) -> None:
    """X-24 again, with all state at once; an executor made afterwards copies what was loaded."""
    model = quadratic().start()
    exe, shared = model.parallel(2), {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    reference, saved = NumpyReplicas(shared, 2, ["w", "b"]), {}
    xs = np.random.default_rng(1).uniform(-1, 1, (8, 4, 1)).astype(np.float32)
    for k, x in enumerate(xs):
        with static.scope_guard(model.scope):
            if k == 2:
                static.save(model.main, str(tmp_path / "model"))
                saved.update(shared)
            if k == 5:
                static.load(model.main, str(tmp_path / "model"))
                shared.update(saved)
        np.testing.assert_allclose(exe.run([model.loss], feed={"X": x})[0], reference.step(np.split(x, 2)), rtol=1e-4)
    with static.scope_guard(model.scope):
        static.load(model.main, str(tmp_path / "model"))
    fresh, again = model.parallel(2), NumpyReplicas(dict(saved), 2, ["w", "b"])
    for x in xs:
        np.testing.assert_allclose(fresh.run([model.loss], feed={"X": x})[0], again.step(np.split(x, 2)), rtol=1e-4)


def test_the_startup_program_between_runs_sets_device_0_back() -> None:
    model = quadratic().start()
    exe, shared = model.parallel(2), {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    reference = NumpyReplicas(shared, 2, ["w", "b"])
    for k, x in enumerate(np.random.default_rng(2).uniform(-1, 1, (6, 4, 1)).astype(np.float32)):
        if k == 3:
            model.start()
            shared.update(w=2.0, b=0.5, vw=0.0, vb=0.0)
        np.testing.assert_allclose(exe.run([model.loss], feed={"X": x})[0], reference.step(np.split(x, 2)), rtol=1e-4)


# What is kept


def run_batches(exe: Any, sizes: Sequence[int]) -> None:
    for rows in sizes:
        exe.run([], feed=batch(rows))


@pytest.mark.parametrize("sizes", [range(2, 102), range(101, 1, -1)])
def test_plans_of_100_batch_sizes_are_bounded_and_share_arenas(sizes: Sequence[int]) -> None:
    gc.collect()
    before = Arena.live()
    model = classifier().start()
    exe = model.parallel(2)
    with override(plan_cache_mib=2):
        with pytest.warns(Notice, match=r"FLAGS_plan_cache_mib, 2, is how many MiB are kept"):
            run_batches(exe, sizes)
        kept = exe.inspection.plans
        assert 5 < len(kept) < 80 and sum(map(bytes_kept_for, kept)) <= 2**21
        assert {id(binding.plan) for binding in exe.inspection.bindings} <= set(map(id, kept))
    gc.collect()
    assert Arena.live() - before == 2  # one per device
    nbytes = Arena.live_bytes()
    for rows in list(sizes)[:20]:  # not kept any more
        exe.run([], feed=batch(rows))
    gc.collect()
    assert (Arena.live() - before, Arena.live_bytes()) == (2, nbytes)
    del exe, model
    gc.collect()
    assert Arena.live() == before

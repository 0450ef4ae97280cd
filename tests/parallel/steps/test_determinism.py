"""The same bits whatever the threads, the form of the feed, the passes and the plan (promise 2).

That holds for NumPy calls as for the tape; the bits of the one are not those of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parallel.lowerings import in_both
from tests.parallel.models import Model
from tests.parallel.observe import Held, bits, costly_ops, held, threads_of
from tests.parallel.programs import drawn_model, randoms, sizes, strategies
from tests.parallel.random_models import feed
from workbench import static
from workbench.config import override
from workbench.graph.passes import EXACT

STEPS = 2
Outcome = tuple[list[Any], Held]


def fetches_of(model: Model) -> list[str]:
    """The loss and the parameters with their gradients, which is where differences show first."""
    block = model.main.global_block()
    learned = [p.name for p in model.main.all_parameters() if block.has_var(f"{p.name}@GRAD")]
    gradients = [f"{name}@GRAD" for name in learned if block.var(f"{name}@GRAD").spec.kind == "dense"]
    return [model.loss.name, *gradients[:3], *learned[:2]]


def split(batch: dict[str, np.ndarray], count: int) -> list[dict[str, np.ndarray]]:
    """The documented split, as a list."""
    rows = len(batch["x"]) // count
    cuts = [(i * rows, (i + 1) * rows if i < count - 1 else None) for i in range(count)]
    return [{name: array[slice(*cut)] for name, array in batch.items()} for cut in cuts]


def outcome(model: Model, count: int, mode: str, rows: int, listed: bool = False, **options: Any) -> Outcome:
    """Everything fetched in some steps from the start, and what the devices hold then."""
    exe, fetches = fresh(model, count, mode, **options), fetches_of(model)
    results = []
    for step in range(STEPS):
        batch = feed(step, rows)
        results += bits(exe.run(fetches, feed=split(batch, count) if listed else batch))
    return results, held(exe, model.main)


def fresh(model: Model, count: int, mode: str, **options: Any) -> Any:
    model.scope = static.Scope()
    return model.start().parallel(count, **strategies(mode, **options))


tapes = st.booleans()
modes, counts, batches = st.sampled_from(["AllReduce", "Reduce"]), st.sampled_from([2, 3, 1]), st.integers(6, 9)


@settings(max_examples=80)
@given(randoms, sizes, counts, modes, batches, st.sampled_from([2, 8]), st.booleans(), tapes)
def test_threads_and_lists(
    random: Any, size: int, count: int, mode: str, rows: int, threads: int, listed: bool, tape: bool
) -> None:
    """One thread fed with dicts, and several fed with dicts or with lists of the same split."""
    model = drawn_model(random, size)
    with override(cpu_tape=tape):
        expected = outcome(model, count, mode, rows)
        with costly_ops():
            result = outcome(model, count, mode, rows, listed=listed, threads=threads)
    assert result == expected, str(model.main)


@in_both
def test_costly_ops_do_use_threads() -> None:
    import random

    model = drawn_model(random.Random(3), 8)
    with costly_ops():
        exe = fresh(model, 2, "AllReduce", threads=8)
        exe.run(fetches_of(model), feed=feed(0, 8))
    (bound,) = exe.inspection.bindings
    assert threads_of(bound) > 3


SWITCHES: dict[str, tuple[Any, Any]] = {
    "fuse_all_reduce_ops": (False, True),
    "fuse_all_optimizer_ops": (False, True),
    "fuse_broadcast_ops": (False, True),
    "enable_auto_fusion": (False, True),
    "fuse_bn_act_ops": (False, True),
    "fuse_bn_add_act_ops": (False, True),
    "memory_optimize": (False, True),
    "enable_inplace": (False, True),
    "enable_sequential_execution": (True, False),
    "exact": (False, True),
    "keep_temporaries": (False, True),
    "num_iteration_per_drop_scope": (100, 1),
}
PASS_OF = {
    "fuse_all_reduce_ops": "fuse_all_reduce",
    "fuse_all_optimizer_ops": "fuse_optimizer",
    "fuse_broadcast_ops": "fuse_broadcast",
    "enable_auto_fusion": "elementwise_chains",
    "fuse_bn_act_ops": "fuse_bn_act",
    "fuse_bn_add_act_ops": "fuse_bn_add_act",
    "enable_sequential_execution": "sequential",
}


def test_the_passes_flipped_here_are_those_called_exact() -> None:
    always, same_switch = {"dead_code", "recompute_late", "order_collectives"}, {"fuse_add_act"}
    elsewhere = {"fuse_attention"}  # tests/executors/tape/test_attention.py
    assert set(PASS_OF.values()) == EXACT - always - same_switch - elsewhere


def usable_in(mode: str) -> list[str]:
    """The switches that do not contradict the mode."""
    other = "fuse_all" if mode == "Reduce" else "fuse_broadcast"
    return [name for name in SWITCHES if not name.startswith(other)]


@settings(max_examples=60)
@given(randoms, sizes, counts, modes, batches, tapes, st.data())
def test_every_switch(random: Any, size: int, count: int, mode: str, rows: int, tape: bool, data: Any) -> None:
    """All switches one way, and some of them the other."""
    model, names = drawn_model(random, size), usable_in(mode)
    chosen = data.draw(st.sets(st.sampled_from(names), min_size=1))
    with override(cpu_tape=tape):
        expected = outcome(model, count, mode, rows, **{name: SWITCHES[name][0] for name in names})
        result = outcome(model, count, mode, rows, **{name: SWITCHES[name][name in chosen] for name in names})
    assert result == expected, f"with {sorted(chosen)}\n{model.main}"


@settings(max_examples=30)
@given(randoms, sizes, counts, modes, batches, tapes)
def test_the_observed_plan(random: Any, size: int, count: int, mode: str, rows: int, tape: bool) -> None:
    """Nothing fused, no memory shared, node by node in program order."""
    model = drawn_model(random, size)
    with override(cpu_tape=tape):
        expected = outcome(model, count, mode, rows, enable_auto_fusion=True)
        result = observed(model, count, mode, rows)
    assert result == expected, str(model.main)


def observed(model: Model, count: int, mode: str, rows: int) -> Outcome:
    exe, results = fresh(model, count, mode), []
    for step in range(STEPS):
        observation = exe.inspection.observe(fetches_of(model), feed(step, rows))
        observation.advance_to_the_end()
        results += bits(observation.apply(return_numpy=True, merged=True))
    return results, held(exe, model.main)


@settings(max_examples=10)
@given(randoms, sizes, modes, tapes)
def test_a_second_run_from_the_start(random: Any, size: int, mode: str, tape: bool) -> None:
    model = drawn_model(random, size)
    with override(cpu_tape=tape):
        assert outcome(model, 2, mode, 8, threads=2) == outcome(model, 2, mode, 8, threads=2)

"""All-reduces that updates do themselves: the bits of those done before, whoever looks and whatever changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.memory.plan_checker import check_plan
from tests.parallel.memory.test_sharded_updates import replicas, same_bits, set_a_rate, set_on_device_1, wide
from tests.parallel.models import Model, batch, build, classifier, column, constant
from tests.parallel.observe import costly_ops
from tests.parallel.programs import drawn_model, strategies
from tests.parallel.random_models import feed
from workbench import events, static
from workbench.config import override
from workbench.errors import ExecutionError
from workbench.executors.lowering import binding
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions
from workbench.executors.lowering.tape.update import updates
from workbench.executors.lowering.tape.vector_code import Unsuitable

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: wb.optimizer.SGD(0.1),
    "momentum": lambda: wb.optimizer.Momentum(0.1, 0.9),
    "adam": lambda: wb.optimizer.Adam(0.01),
    "adamw": lambda: wb.optimizer.AdamW(0.01, weight_decay=0.1),
}
Between = Callable[[Model, Any, int], None]


pytestmark = pytest.mark.usefixtures("tape")


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called, all-reduces are done where they stand."""
    return lambda: monkeypatch.setattr(binding, "fused_reductions", lambda plan, shards: FusedReductions())


def fused_reductions(exe: Any) -> int:
    """How many all-reduces the last step left to updates."""
    return len(exe.inspection.last.reductions.collectives)


def nothing(model: Model, exe: Any, step: int) -> None:
    pass


def trained(
    optimizer: Any, devices: int = 2, threads: int = 1, fetches: Callable[[int], list[str]] = lambda step: [],
    between: Between = nothing,
) -> tuple[dict[str, list[np.ndarray]], list[list[np.ndarray]], list[int]]:  # fmt: skip
    """What all devices hold after some steps, what was fetched, and how many all-reduces updates took in each step."""
    model = wide(optimizer).start()
    fetched, counts = [], []
    with costly_ops():
        exe = model.parallel(devices, **strategies(threads=threads))
        for step in range(6):
            fetched.append([np.asarray(a) for a in exe.run(fetches(step), feed=batch(13, step))])
            counts.append(fused_reductions(exe))
            between(model, exe, step)
    return replicas(model, exe, devices), fetched, counts


def test_what_is_left_to_updates_is_done_by_nobody_else() -> None:
    """Nor where rows are run again as calls: the contributions are still to be added up."""
    model = wide(wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(13))
    last = exe.inspection.last
    rows = [row for row in last.plan.rows if row.node in last.reductions.collectives]
    contributions = [last.array(v) for row in rows for v in row.node.reads]
    before = [a.copy() for a in contributions]
    for row in rows:
        for call in last.lowering.by_numpy(row):
            call()
    assert before and all(map(np.array_equal, before, contributions))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("devices", [1, 2, 3, 4])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_that_sum_give_the_bits_of_sums_made_before(
    name: str, devices: int, threads: int, never: Callable[[], None]
) -> None:
    fetched, _, counts = trained(OPTIMIZERS[name](), devices, threads)
    assert all(counts) == (devices > 1)
    never()
    expected, _, none = trained(OPTIMIZERS[name](), devices, threads)
    assert none == [0] * 6
    same_bits(fetched, expected)


def test_what_is_fetched_is_summed_before(never: Callable[[], None]) -> None:
    def fetches(step: int) -> list[str]:
        return [[], ["fc_1.w_0@GRAD"], ["fc_2.b_0@GRAD", "fc_1.w_0"]][step % 3]

    results, fetched, counts = trained(OPTIMIZERS["adam"](), 3, 2, fetches)
    assert [count > 0 for count in counts] == [True, False, False] * 2
    never()
    expected, right, _ = trained(OPTIMIZERS["adam"](), 3, 2, fetches)
    same_bits(results, expected)
    for mine, theirs in zip(fetched, right, strict=True):
        assert [a.tobytes() for a in mine] == [a.tobytes() for a in theirs]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("between", [set_on_device_1, set_a_rate])
@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_replicas_that_stop_being_alike(name: str, between: Between, threads: int, never: Callable[[], None]) -> None:
    fetched, _, counts = trained(OPTIMIZERS[name](), 3, threads, between=between)
    assert counts[0] and not counts[-1]
    never()
    expected, _, _ = trained(OPTIMIZERS[name](), 3, threads, between=between)
    same_bits(fetched, expected)
    assert fetched["fc_1.w_0"][0].tobytes() != fetched["fc_1.w_0"][1].tobytes()


@pytest.mark.parametrize("powers_agree", [True, False])
def test_updates_without_a_native_form_sum_by_numpy(powers_agree: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise Unsuitable

    def set_a_power(model: Model, exe: Any, step: int) -> None:
        if step == 2 and not powers_agree:
            name = next(v.name for v in model.main.persistables() if "beta1_pow" in v.name)
            for device in range(3):
                exe.local_scope(device).find_var(name).get_tensor().set(np.full(1, 0.5, np.float32))

    monkeypatch.setattr(updates, "_shard", refuse)
    fetched, _, counts = trained(OPTIMIZERS["adam"](), 3, between=set_a_power)
    assert counts[0]
    with override(cpu_tape=False):
        expected, _, _ = trained(OPTIMIZERS["adam"](), 3, between=set_a_power)
    for name, values in fetched.items():
        for x, y in zip(values, expected[name], strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: wb.optimizer.Adam(0.01, grad_clip=wb.nn.ClipGradByGlobalNorm(0.1)),
        lambda: wb.optimizer.Momentum(0.1, weight_decay=wb.regularizer.L1Decay(0.01)),
    ],
)
def test_gradients_somebody_else_reads_are_summed_before(optimizer: Callable[[], Any]) -> None:
    assert trained(optimizer())[2] == [0] * 6


def test_an_all_reduce_that_is_not_for_shared_updates_is_done_before(never: Callable[[], None]) -> None:
    """One parameter has a rate of its own, and so an update of its own."""

    def after_steps() -> tuple[dict[str, list[np.ndarray]], int, int]:
        own = wb.ParamAttr(learning_rate=0.5)
        optimizer = wb.optimizer.Momentum(0.1)
        model = classifier(optimizer, extra=lambda h: static.nn.fc(h, 64, weight_attr=own, bias_attr=False)).start()
        exe = model.parallel(2)
        for step in range(4):
            exe.run([], feed=batch(12, step))
        return replicas(model, exe, 2), fused_reductions(exe), len(exe.inspection.last.plan.graph.collectives())

    fetched, count, collectives = after_steps()
    assert 0 < count < collectives
    never()
    same_bits(fetched, after_steps()[0])


@pytest.mark.parametrize("joined", [True, False])
def test_sums_beside_their_parts(joined: bool) -> None:
    """Without taking over memory, what comes of an all-reduce lies elsewhere than what goes in."""

    def fetched() -> np.ndarray:
        options = strategies(fuse_all_reduce_ops=joined, enable_inplace=False, memory_optimize=False)
        exe = wide(OPTIMIZERS["sgd"]()).start().parallel(3, **options)
        return np.asarray(exe.run(["fc_1.w_0@GRAD"], feed=batch(12))[0])

    sums = fetched()
    with override(cpu_tape=False):
        expected = fetched()
    np.testing.assert_allclose(sums, expected, rtol=2e-5, atol=1e-6)
    assert np.abs(sums).max() > 1e-3 and len({part.tobytes() for part in np.split(sums, 3)}) == 1


@pytest.mark.parametrize("devices", [2, 3])
def test_a_gradient_the_scope_keeps_is_summed_before(devices: int, never: Callable[[], None]) -> None:
    """The commit copies it to the scope from where the sum would have been."""

    def kept() -> tuple[list[bytes], int]:
        model = wide(OPTIMIZERS["momentum"]())
        model.main.global_block().var("fc_1.w_0@GRAD").persistable = True
        exe = model.start().parallel(devices)
        exe.run([], feed=batch(12))
        scopes = [exe.local_scope(device) for device in range(devices)]
        return [np.array(s.find_var("fc_1.w_0@GRAD").get_tensor()).tobytes() for s in scopes], fused_reductions(exe)

    sums, _ = kept()
    never()
    expected, none = kept()
    assert sums == expected and none == 0 and len(set(sums)) == 1


def test_local_scopes_show_the_sums() -> None:
    model = wide(OPTIMIZERS["adam"]()).start()
    exe = model.parallel(3)
    exe.run([], feed=batch(12))
    assert fused_reductions(exe)
    shown = [np.array(exe.local_scope(d).find_var("fc_1.w_0@GRAD").get_tensor()) for d in range(3)]
    again = wide(OPTIMIZERS["adam"]()).start()
    (fetched,) = again.parallel(3).run(["fc_1.w_0@GRAD"], feed=batch(12))
    assert np.concatenate(shown).tobytes() == np.asarray(fetched).tobytes()


def test_a_sum_that_is_infinite_is_found() -> None:
    """Its terms are not, and nothing before the commit would have made it."""

    def body() -> Any:
        x = static.data("X", [None, 1])
        return wb.mean(wb.sum(static.nn.fc(x, 64, weight_attr=constant(1e-3), bias_attr=constant(0.0)), axis=1))

    model = build(body, wb.optimizer.SGD(1e-6)).start()
    scale = static.BuildStrategy.GradientScaleStrategy.One
    exe = model.parallel(2, **strategies(gradient_scale_strategy=scale))
    exe.run([], feed={"X": column(1, 2)})
    assert fused_reductions(exe)
    before = model.values()
    with override(check_nan_inf=True), pytest.raises(ExecutionError, match=r"all_reduce.* made 0 NaN and 64 Inf"):
        exe.run([], feed={"X": np.full((2, 1), 3e38, np.float32)})
    for name, value in model.values().items():
        np.testing.assert_array_equal(value, before[name])


def test_all_reduces_are_told_within_the_updates_that_do_them() -> None:
    """They lie between the last arrival and the end of the updates, and last a share of their time."""
    heard: list[Any] = []
    model = wide(OPTIMIZERS["adam"]()).start()
    exe = model.parallel(2)
    with events.subscribe(heard.append, events.Collective, events.OpRun):
        exe.run([], feed=batch(12))
    gradients = {v.name + "@GRAD" for v in model.main.all_parameters()}
    sums = [event for event in heard if isinstance(event, events.Collective)]
    updates = [event for event in heard if isinstance(event, events.OpRun) and event.op.role == "Optimize"]
    assert sorted(name for event in sums for name in event.names) == sorted(gradients)
    assert all(event.within_ops and event.nbytes for event in sums)
    assert min(event.start for event in updates) <= min(event.start for event in sums)
    assert max(event.end for event in sums) <= max(event.end for event in updates)
    assert sum(event.end - event.start for event in sums) < sum(event.end - event.start for event in updates)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=True))
def test_the_memory_of_random_programs_without_the_late_all_reduces(random: Any) -> None:
    """Threads that wait for less still never write over what another one reads."""
    model = drawn_model(random, random.randint(2, 8)).start()
    with costly_ops():
        exe = model.parallel(random.choice([2, 3]), **strategies(threads=4))
        exe.run([], feed=feed(random.randint(0, 99), 12))
    last = exe.inspection.last
    check_plan(last.plan, last.reductions.collectives)

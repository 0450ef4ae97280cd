"""What a dashboard says: compared with what the executor did."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.notebook.dashboard.conftest import of_kind
from tests.parallel.models import Model as Built
from workbench import events, static
from workbench.checkpoint.files import read_tensors
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.executors.profiling.sampled_steps import SampledStep
from workbench.experiments.records.recorder import record_of
from workbench.framework.values.place import CPUPlace
from workbench.io import DataLoader
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject
from workbench.notebook.dashboard.page.publisher import Publisher
from workbench.notebook.dashboard.watching.samples import Samples, sample_message
from workbench.notebook.steps.profiling import profile_step

ModelOf = Callable[[Any], Model]


def begin(model: Model, name: str = "run", **settings: Any) -> Any:
    """Give a command that takes a while, and let it take it."""
    slow = model.command(name, settings)
    assert slow is not None
    quick = slow()
    model.busy = None
    quick()
    return model.run


def reach(model: Model, step: int, patience: float = 30.0) -> None:
    """Wait until the run has made so many steps and holds or has ended."""
    deadline = time.monotonic() + patience
    while model.run.state == "running" or model.run.step < step:
        assert time.monotonic() < deadline, model.run
        time.sleep(0.01)


# An executor that a loop of the user's steps


def test_each_devices_feed_is_told_with_its_rows(built: Built, batch: dict[str, Any], model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    exe.run([built.loss], feed=batch)
    feeds = of_kind(model.news(), "sample")["feeds"]
    assert feeds["devices"] == ["cpu:0", "cpu:1"]
    assert feeds["rows"] == {"x": [3, 4], "y": [3, 4]} and feeds["first"]["x"] == [0, 3]
    assert feeds["shapes"]["x"] == [[3, 5], [4, 5]] and feeds["dtypes"] == {"x": "float32", "y": "int64"}
    assert feeds["nbytes"] == [3 * 5 * 4 + 3 * 8, 4 * 5 * 4 + 4 * 8]
    counts = [dict(zip(p["values"], p["counts"])) for p in feeds["previews"]["y"]]
    expected = [dict(zip(*np.unique(part, return_counts=True))) for part in (batch["y"][:3], batch["y"][3:])]
    assert counts == expected
    np.testing.assert_array_equal(feeds["previews"]["x"][1]["rows"][0], batch["x"][3])


def test_a_step_right_after_everything_was_told_is_looked_at(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    model.everything()
    exe.run([built.loss], feed=batch)
    assert of_kind(model.news(), "sample")["step"] == 1


def test_a_dashboard_that_comes_late_knows_the_last_split(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    exe.run([built.loss], feed=batch)
    sample = of_kind(model_of(exe).everything(), "sample")
    assert sample["feeds"]["rows"] == {"x": [3, 4], "y": [3, 4]} and sample["feeds"]["shapes"]["x"] == [[3, 5], [4, 5]]
    assert sample["step"] == 1 and len(sample["spans"]["node"]) == 0


def test_spans_are_those_of_the_events(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    exe.run([built.loss], feed=batch)
    model, told = model_of(exe), []
    with events.subscribe(told.append, events.OpRun, events.Collective, events.Step):
        exe.run([built.loss], feed=batch)
    model.news()
    sample, graph = model.watch.samples.last, model.watch.graph
    assert sample is not None
    step = next(e for e in told if isinstance(e, events.Step))
    ops = [e for e in told if isinstance(e, events.OpRun)]
    assert sample["step"] == step.step + 1 == 2
    starts = [(e.start - step.start) / 1e3 for e in ops]
    np.testing.assert_allclose(sample["spans"]["start"][: len(ops)], starts, rtol=1e-4)
    assert [int(n) for n in sample["spans"]["node"][: len(ops)]] == [e.op.node for e in ops]
    sums = [graph.nodes[n].type for n in sample["spans"]["node"][sample["spans"]["collective"] == 1]]
    assert sums and set(sums) <= {"all_reduce", "fused_all_reduce"}
    told_nodes = sorted(int(n) for n in sample["members"]["node"])
    ran = [n for n, node in enumerate(graph.nodes) if not node.is_collective and node.type != "fetch"]
    assert told_nodes == ran


def test_waits_and_arrivals_are_told_in_microseconds_of_the_step() -> None:
    places = (CPUPlace(0), CPUPlace(1))
    sampled = SampledStep(4, step=events.Step("e", 4, 1_000, 90_000, places, (1, 1)))
    sampled.ops.append(events.OpRun("e", 4, events.OpInfo(7, "mul", places[0]), 0, 1_000, 21_000))
    sampled.waits.append(events.Wait("e", 4, places[1], 1, 11_000, 31_000, ("op 'mul' on cpu:0",)))
    arrived = 21_000, 11_000
    sampled.collectives.append(
        events.Collective("e", 4, "all_reduce", ("w",), 8, places, 0, 31_000, 41_000, True, arrived)
    )
    sample = sample_message(sampled, 1, 1_000)
    spans, labels = sample["spans"], sample["labels"]
    told = [spans[name].tolist() for name in ("node", "device", "start", "end", "collective", "wait", "within")]
    assert [*zip(*told)] == [(7, 0, 0, 20, 0, 0, 0), (-1, -1, 30, 40, 1, 0, 1), (-1, 1, 10, 30, 0, 1, 0)]
    assert [labels[k] for k in spans["label"]] == ["mul", "all_reduce", "op 'mul' on cpu:0"]
    assert {name: times.tolist() for name, times in sample["arrivals"].items()} == {
        "span": [1, 1], "device": [0, 1], "at": [20, 10],
    }  # fmt: skip
    samples = Samples()
    samples.add(sampled, 1)
    slowest = samples.slowest(1)
    assert [op.label for op in slowest] == ["mul"]  # though the wait was as long


def test_making_the_plan_is_no_part_of_the_step(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model, told = model_of(exe), []
    with events.subscribe(told.append, events.PlanCompiled, events.OpRun, events.Step):
        exe.run([built.loss], feed=batch)
    compiled, *ops, step = told
    model.news()
    sample = model.watch.samples.last
    assert sample is not None and sample["compiled"] == compiled.seconds
    assert sample["seconds"] == pytest.approx((step.end - min(o.start for o in ops)) / 1e9)
    assert sample["spans"]["start"].min() == 0.0
    exe.run([built.loss], feed=batch)  # looked at, too: it shows what steps are like
    model.news()
    assert model.watch.samples.last["compiled"] is None and len(model.watch.samples.kept) == 2


def test_the_slowest_op_is_that_of_the_medians(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model, told = model_of(exe), []
    for _ in range(8):
        model.watch.sample_next()
        with events.subscribe(told.append, events.OpRun):
            exe.run([built.loss], feed=batch)
        model.news()
    times: dict[Any, list[int]] = {}
    for event in told:
        if event.step > 2:  # for the first one a plan was made, and memory is new to the next ones
            times.setdefault((event.op.node, event.op.type), []).append(event.end - event.start)
    expected = max(times, key=lambda key: np.median(times[key]))
    slowest = model.watch.slowest()
    assert slowest is not None and (slowest["node"], slowest["steps"]) == (expected[0], 5)
    written = next(iter(exe.inspection.last.plan.graph.nodes[expected[0]].writes))
    assert slowest["label"] == f"{expected[1]} {written.name}"  # which of the ops of this type it is
    assert slowest["us"] == pytest.approx(np.median(times[expected]) / 1e3, rel=1e-3)


def test_a_program_without_a_loss_has_nothing_to_run(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.test)
    assert model.allowed() == [] and model.controls.values()["program"] is None
    assert of_kind(model.everything(), "graph")["devices"] == ["cpu:0"]
    model.controls.set({"program": "net"})  # somebody chose another one
    assert model.allowed() == ["run", "step"]


def test_only_steps_that_are_looked_at_are_watched(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    other = built.parallel(2)
    other.run([built.loss], feed=batch)
    steps = model.watch.sampled_steps
    assert steps.waiting and not steps.taken  # another executor's step is not ours
    looked = []
    for _ in range(20):
        looked.append(steps.waiting)
        exe.run([built.loss], feed=batch)
    assert [n for n, is_looked_at in enumerate(looked, 1) if is_looked_at] == [1, 2, 4, 6, 8, 10, 12, 14]
    assert [sampled.number + 1 for sampled in steps.taken] == [1, 2, 4, 6, 8, 10, 12, 14]
    assert [sampled.compiled is None for sampled in steps.taken] == [False] + [True] * 7
    assert not events.listening(events.Step) or not events.listening(events.OpRun)


def test_a_short_run_and_a_profile_agree_on_the_slowest_op(model_of: ModelOf) -> None:
    with static.program_guard(static.Program(), static.Program()):
        x, wide = static.data("x", [None, 4]), static.data("wide", [768, 768])
        loss = wb.mean(static.nn.fc(x, 2)) + wb.mean(wb.matmul(wide, wide))
        wb.optimizer.SGD(0.1).minimize(loss)
        main, startup = static.default_main_program(), static.default_startup_program()
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((8, 4), np.float32), "wide": rng.standard_normal((768, 768), np.float32)}
    slowest = []
    for _ in range(2):
        scope = static.Scope()
        run = wb.train(main, [feed] * 40, epochs=1, startup=startup, scope=scope, record=False, paused=True)
        model = model_of(run)
        run.resume()
        run.wait(60)
        slowest.append(of_kind(model.everything(), "sample")["slowest"])
    with static.scope_guard(scope):
        profile = profile_step({"exe": run.executor, "feed": feed}, "exe", "feed", repeat=3)
    types = [one["label"].split()[0] for one in slowest]
    assert types == ["matmul_v2", "matmul_v2"] == [profile.op_types[0].name] * 2
    assert all(one["steps"] >= 5 and one["share"] > 0.5 for one in slowest)


@pytest.mark.parametrize("steps", [2, 40])
def test_a_run_that_nobody_watched_has_an_early_step_sampled(
    built: Built, batch: Any, model_of: ModelOf, steps: int
) -> None:
    exe, told = built.start().parallel(2), []
    run = wb.train(
        built.main, [batch] * steps, epochs=1, executor=exe, record=False, progress=False,
        on_step=lambda run: told.append(run.early.waiting),
    ).wait(60)  # fmt: skip
    assert told[:steps] == [True] + [False] * (
        steps - 1
    )  # behind the first step the second is listened to, then no other
    messages = model_of(run).everything()
    sample = of_kind(messages, "sample")
    assert (sample["step"], sample["slowest"]["steps"]) == (2, 1) and sample["slowest"]["us"] > 0
    assert len(sample["spans"]["node"]) > 0 and sample["compiled"] is None
    newest = sample if steps == 2 else of_kind(messages, "fed")
    assert newest["step"] == steps and newest["feeds"]["rows"]["x"] == [3, 4] and newest["feeds"]["previews"]["x"]


def test_a_run_of_one_step_samples_none(built: Built, batch: Any) -> None:
    run = wb.train(built.main, [batch], epochs=1, executor=built.start().parallel(2), record=False, progress=False)
    run.wait(60)
    assert run.early is not None and run.early.sampled is None and not run.early.waiting


def test_one_sampled_step_says_that_it_is_one(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    exe.run([built.loss], feed=batch)
    model.news()
    cold = model.watch.slowest()
    assert cold is not None and cold["steps"] == 1  # the one a plan was made for: there is no other
    exe.run([built.loss], feed=batch)
    model.news()
    assert model.watch.slowest()["steps"] == 1 and len(model.watch.samples.kept) == 2


@pytest.mark.parametrize("durations", [[9.0], [9.0, 0.3], [9.0, 8.0, 7.0, 0.2, 0.5, 0.3, 5.0], [9.0] * 3 + [0.4, 0.2]])
def test_a_typical_step_is_the_one_in_the_middle_of_the_warm_ones(durations: list[float]) -> None:
    samples, cold = Samples(), 3
    for step, seconds in enumerate(durations, start=1):
        message = {"step": step, "graph": 1, "seconds": seconds, "compiled": 2.0 if step == 1 else None}
        samples.keep({**message, "spans": {"node": np.zeros(1, np.int32)}})
    samples.keep({**message, "step": 99, "graph": 2, "seconds": 0.1, "spans": {"node": np.zeros(0, np.int32)}})
    warm = durations[cold:] or durations[1:] or durations
    typical = samples.typical(1)
    assert typical is not None and typical["among"] == len(warm)
    assert typical["seconds"] == statistics.median_low(warm) == durations[typical["step"] - 1]
    assert samples.typical(2) is None and samples.typical(3) is None  # nothing was timed


def test_between_two_sampled_steps_it_can_be_ended(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    steps = model_of(exe).watch.sampled_steps
    for _ in range(2):
        exe.run([built.loss], feed=batch)
    assert not steps.waiting  # step 3 is not looked at, 4 would be
    steps.close()
    for _ in range(3):
        exe.run([built.loss], feed=batch)
    assert len(steps.taken) == 2 and not steps.waiting


def test_fetched_values_become_curves_under_the_users_names(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    losses = [float(np.mean(exe.run([built.loss], feed=batch)[0])) for _ in range(5)]
    curves = of_kind(model.everything(), "curves")
    np.testing.assert_allclose(curves["series"]["cost"]["mean"], losses, rtol=1e-6)
    state = model.state()
    assert state["run"]["step"] == 5 and state["run"]["last"]["cost"] == pytest.approx(losses[-1])


def test_drops_are_told_with_step_bytes_and_cause(built: Built, batch: Any, model_of: ModelOf) -> None:
    strategy = static.ExecutionStrategy()
    strategy.num_iteration_per_drop_scope = 3
    exe = built.start().parallel(2, exec_strategy=strategy)
    model, told = model_of(exe), []
    with events.subscribe(told.append, events.ScopeDrop):
        for _ in range(7):
            exe.run([built.loss], feed=batch)
        exe.drop_local_exe_scopes()
    model.watch.memory_changed()
    message = model.watch.scopes_message()
    assert message["drops"]["step"].tolist() == [3, 6, 7] and message["drops"]["total"] == 3
    assert message["drops"]["cause"] == ["interval", "interval", "call"]
    for device in (0, 1):
        assert message["drops"]["bytes"][device].tolist() == [e.nbytes[device] for e in told]
        levels = dict(zip(message["memory"]["step"], message["memory"]["bytes"][device]))
        assert levels[7] == 0.0


def test_memory_is_taken_by_the_first_step_after_a_drop(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    for steps in (3, 2):
        for _ in range(steps):
            exe.run([built.loss], feed=batch)
        model.watch.memory_changed()
        exe.drop_local_exe_scopes()
    model.watch.memory_changed()
    memory = model.watch.scopes_message()["memory"]
    taken = list(zip(memory["step"].tolist(), (memory["bytes"][0] > 0).tolist()))
    first, second = [(1, True), (3, True), (3, True), (3, False)], [(4, True), (5, True), (5, True), (5, False)]
    assert taken == [(0, False), *first, *second]


def test_reduce_spreads_parameters_and_state_over_the_devices(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    exe.run([built.loss], feed=batch)
    own, other = model_of(exe).watch.scopes_message()["totals"]
    sizes = sum(4 * int(np.prod(p.shape)) for p in built.main.all_parameters())
    assert (own["strategy"], other["strategy"]) == ("AllReduce", "Reduce")
    assert [d["parameters"] for d in own["devices"]] == [sizes, sizes]
    assert sum(d["parameters"] for d in other["devices"]) == sizes == sum(d["gradients"] for d in other["devices"])


def test_a_failing_step_shows_op_device_and_line(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    exe.run([built.loss], feed=batch)
    bad = {**batch, "y": np.full((7, 1), 77)}
    with pytest.raises(wb.errors.EnforceNotMet):
        exe.run([built.loss], feed=bad)
    error = model.state()["run"]["error"]
    assert "softmax_with_cross_entropy" in error["op"] and "models.py" in error["site"] and error["device"] == "cpu:0"
    assert model.state()["run"]["step"] == 1


def test_looking_settles_nothing(built: Built, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model_of(exe).everything()
    exe.inspection.build.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce  # raises once it is settled
    assert not exe.inspection.started


# Runs of the controls


def test_step_run_pause_stop_and_other_devices(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    assert model.allowed() == ["run", "step"] and model.state()["run"] is None
    run = begin(model, "step", devices=2, steps=400)
    reach(model, 1)
    assert (run.step, run.state) == (1, "paused")
    assert of_kind(model.news(), "sample")["feeds"]["rows"]["x"] == [3, 4]
    model.command("step", {})
    reach(model, 2)
    assert (run.step, run.state) == (2, "paused") and model.allowed() == ["resume", "step", "stop", "drop", "save"]
    model.command("resume", {})
    reach(model, 3, 0.0) if run.step > 3 else None
    model.command("pause", {})
    reach(model, 2)
    assert run.state == "paused"
    model.command("stop", {})
    assert run.wait(30).state == "stopped"
    again = begin(model, devices=3, reduce_strategy="Reduce", steps=5).wait(30)
    assert again.state == "done" and again.step == 5 and model.state()["subject"]["strategy"] == "Reduce"
    numbers = [record.number for r in (run, again) if (record := record_of(r)) is not None]
    labels = [shown["label"] for shown in model.state()["runs"]]  # the numbers are those of %runs
    assert labels == [f"run {numbers[0]}: net, 2 devices, AllReduce", f"run {numbers[1]}: net, 3 devices, Reduce"]
    assert [recorded.name for number in numbers for recorded in wb.runs().filter(number=number)] == ["net", "net"]
    assert [m["label"] for m in model.everything() if m["type"] == "curves"] == labels
    assert len([m for m in model.everything() if m["type"] == "curves"]) == 2


def test_a_command_that_makes_no_sense_is_refused_and_chooses_nothing(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    with pytest.raises(PreconditionNotMet, match="pause is not possible now: nothing has been started"):
        model.command("pause", {"devices": 7})
    with pytest.raises(InvalidArgument, match="no command 'jump'"):
        model.command("jump", {})
    with pytest.raises(InvalidArgument, match="no setting 'divices'"):
        model.command("run", {"divices": 3})
    assert model.controls.values()["devices"] == 2 and model.busy is None


def test_a_wrong_setting_is_refused_before_anything_begins(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    with pytest.raises(InvalidArgument, match="reduce_strategy is one of AllReduce, Reduce"):
        model.command("run", {"reduce_strategy": "Sum"})
    assert model.busy is None and model.allowed() == ["run", "step"]


def test_a_checkpoint_is_called_after_the_step_it_is_of(
    built: Built, model_of: ModelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = model_of(built.main)
    run = begin(model, devices=1, steps=10**9)
    for _ in range(3):
        begin(model, "save")
        step, path = run.checkpoints[-1]
        told = read_tensors(tmp_path / path)[1]["run"]["step"]
        assert path == f"net-step-{told}.checkpoint" and step == told and path in str(model.state()["notice"])
    run.stop()
    run.wait(30)


def test_a_run_that_fails_keeps_its_history(built: Built, batch: Any, model_of: ModelOf) -> None:
    bad = {**batch, "y": np.full((7, 1), 77)}
    run = wb.train(
        built.main, [batch, batch, bad], fetch={"cost": built.loss}, startup=built.startup, progress=False,
        executor=built.parallel(2), record=False, paused=True,
    )  # fmt: skip
    model = model_of(run)
    run.resume()
    with pytest.raises(wb.errors.EnforceNotMet):
        run.wait(30)
    state = model.state()["run"]
    assert (state["state"], state["step"]) == ("failed", 2)
    assert "softmax_with_cross_entropy" in state["error"]["op"] and "models.py" in state["error"]["site"]
    assert len(of_kind(model.everything(), "curves")["series"]["cost"]["mean"]) == 2


def test_a_run_on_one_device_is_shown_as_any_other(built: Built, loader: DataLoader, model_of: ModelOf) -> None:
    run = wb.train(built.main, loader, epochs=1, fetch=[built.loss], startup=built.startup, progress=False,
                   record=False, scope=built.scope).wait(30)  # fmt: skip
    model = model_of(run)
    messages = model.everything()
    assert len(of_kind(messages, "curves")["series"][built.loss.name]["mean"]) == 10
    assert of_kind(messages, "graph")["devices"] == ["cpu:0"] and of_kind(messages, "state")["run"]["state"] == "done"
    assert model.allowed() == ["run", "step", "drop"]
    assert {"sample", "scopes"} <= {message["type"] for message in messages}


def test_other_things_have_no_dashboard(model_of: ModelOf) -> None:
    with pytest.raises(InvalidType, match="dashboard takes a ParallelExecutor"):
        model_of(3)


# The graph and its nodes


def test_the_graph_is_that_of_the_executor(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    exe.run([built.loss], feed=batch)
    message = of_kind(model_of(exe).everything(), "graph")
    graph = exe.graph([built.loss])
    types = [message["tables"]["type"][t] for t in message["node"]["type"]]
    assert types == [node.type for node in graph.nodes] and message["devices"] == ["cpu:0", "cpu:1"]
    across = set(zip(message["across"]["node"].tolist(), message["across"]["device"].tolist()))
    assert across == {(n, d) for n, node in enumerate(graph.nodes) if len(node.places) > 1 for d in node.places}
    fed = {message["value"]["name"][v]: message["value"]["shape"][v] for v in message["read"]["value"]}
    assert fed["x"][1] == 5 and fed["x"][0] in (3, 4)


def test_statistics_are_those_of_the_values(built: Built, batch: Any, model_of: ModelOf) -> None:
    from workbench.notebook.dashboard.page.answers import answer

    exe = built.start().parallel(2)
    model = model_of(exe)
    exe.run([built.loss], feed=batch)
    model.news()
    before = built.values()
    graph = model.watch.graph
    number = next(n for n, node in enumerate(graph.nodes) if node.type == "mul" and node.place == 1)
    asked = {"graph": model.watch.graph_number, "node": number, "request": 9}
    reply = answer(model, {"type": "statistics", **asked})
    weight = next(v for v in graph.nodes[number].reads if v.persistable)
    product = batch["x"][3:] @ built.value(weight.name)
    (value,) = reply["values"]
    assert reply["request"] == 9 and value["shape"] == list(product.shape)
    for name in ("mean", "std", "min", "max"):
        assert value[name] == pytest.approx(getattr(product, name)(), rel=1e-4, abs=1e-6)
    assert sum(value["histogram"]["counts"]) == product.size and value["nan"] == 0
    for name, array in built.values().items():
        np.testing.assert_array_equal(array, before[name])
    node = answer(model, {"type": "node", **asked})
    assert node["op"] == "mul" and node["timing"]["calls"] == 1 and "models.py" in node["site"]
    assert answer(model, {"type": "node", **asked, "graph": -1})["error"] == "the graph has changed since"


# What a second look found


def test_the_chosen_one_of_several_copies_is_trained(built: Built, loader: DataLoader) -> None:
    base = built.test
    names: dict[str, Any] = {"batches": loader}
    for name, optimizer in (("slow", wb.optimizer.SGD(0.1)), ("quick", wb.optimizer.Adam(0.1))):
        copy = base.clone()
        with static.program_guard(copy, startup := built.startup.clone()):
            optimizer.minimize(copy.global_block().var(built.loss.name))
        names |= {name: copy, f"{name}_startup": startup}
    model = Model(Subject.of(names["quick"], names), lambda: names, lambda program, name: names[f"{name}_startup"])
    assert model.controls.values()["program"] == "quick"
    for name, kind in (("slow", "sgd"), ("quick", "adam")):
        run = begin(model, program=name, data="batches", steps=2).wait(30)
        assert run.name == name and any(op.type == kind for op in run.program.all_ops())
    model.close()


def test_looking_at_a_compiled_program_leaves_everything_open(built: Built, batch: Any, model_of: ModelOf) -> None:
    compiled = static.CompiledProgram(built.main)
    model_of(compiled).everything()
    compiled.with_data_parallel(built.loss.name, places=static.cpu_places(2))
    model = model_of(compiled)
    scope = built.start().scope
    (losses,) = static.Executor().run(compiled, feed=batch, fetch_list=[built.loss], scope=scope)
    assert losses.shape == (2,) and model.watch.steps() == 1


def test_an_error_goes_with_the_next_good_step(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    with pytest.raises(wb.errors.EnforceNotMet):
        exe.run([built.loss], feed={**batch, "y": np.full((7, 1), 77)})
    assert model.state()["run"]["error"] is not None
    exe.run([built.loss], feed=batch)
    assert model.state()["run"]["error"] is None


def test_unmerged_and_large_fetches_are_taken_as_they_are(built: Built, batch: Any, model_of: ModelOf) -> None:
    compiled = static.CompiledProgram(built.main).with_data_parallel(built.loss.name, places=static.cpu_places(2))
    scope, exe = built.start().scope, static.Executor()
    model = model_of(compiled)
    (parts,) = exe.run(compiled, feed=batch, fetch_list=["x"], scope=scope, return_merged=False)
    assert [len(part) for part in parts] == [3, 4]
    (shown,) = model.shown
    assert shown.fetched is not None
    ((names, (kept,)),) = shown.fetched._told
    assert names == ("x",) and kept is not None and kept.size == 35
    model.news()
    large = {"x": np.ones((700, 5), np.float32), "y": np.zeros((700, 1), np.int64)}
    exe.run(compiled, feed=large, fetch_list=["x"], scope=scope)
    assert shown.fetched._told[-1][1] == [None]


def test_names_and_numbers_that_are_none_are_refused_at_once(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    for wrong in ({"program": "nope"}, {"data": "nope"}, {"data": [1]}):
        with pytest.raises(InvalidArgument, match="is the name of one of"):
            model.controls.set(wrong)
    for rate in ("a", -1, float("nan"), True):
        with pytest.raises(InvalidArgument, match="learning_rate is a number of at least 0"):
            model.command("run", {"learning_rate": rate})
    model.controls.set({"learning_rate": None})
    begin(model, learning_rate=0.5, steps=1).wait(30)
    assert model.controls.values()["learning_rate"] == 0.5
    model.controls.set({"learning_rate": None})
    assert model.controls.setup().learning_rate is None


def test_a_run_that_has_ended_is_not_looked_at(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    begin(model, steps=3).wait(30)
    for _ in range(3):
        model.news()
        model.watch._throttle.hurry()
    assert not model.watch.sampled_steps.waiting


def test_a_short_run_shows_warm_steps(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    begin(model, steps=81).wait(30)
    sample = of_kind(model.everything(), "sample")
    assert sample["step"] > 1 and sample["compiled"] is None
    assert sample["slowest"]["steps"] >= 5
    scopes = of_kind(model.everything(), "scopes")
    assert scopes["feeds"]["step"][-1] == 81 and [rows[-1] for rows in scopes["feeds"]["rows"]] != [0, 0]


def test_a_run_that_has_ended_shows_its_drops(
    built: Built, loader: DataLoader, model_of: ModelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs.sqlite"))
    setup = wb.experiments.setup(built.main, loader, built.startup, {"loss": built.loss}, devices=2, steps=250)
    told: list[events.ScopeDrop] = []
    with events.subscribe(told.append, events.ScopeDrop):
        run = setup.start(progress=False).wait(60)
    scopes = of_kind(model_of(run).everything(), "scopes")
    drops, memory = scopes["drops"], scopes["memory"]
    assert drops["step"].tolist() == [event.step for event in told] == [100, 200]
    assert [column.tolist() for column in drops["bytes"]] == [list(sizes) for sizes in zip(*(e.nbytes for e in told))]
    assert (drops["total"], drops["since"], drops["cause"]) == (2, 0, ["interval"] * 2)
    assert max(memory["bytes"][0]) == told[0].nbytes[0] > 0 and memory["step"][0] == 0


def test_a_run_that_has_ended_without_drops_shows_what_it_has_held(
    built: Built, loader: DataLoader, model_of: ModelOf, tmp_path: Path
) -> None:
    run = wb.train(
        built.main, loader, 7, fetch=[built.loss], startup=built.startup, devices=2, progress=False,
        record=tmp_path / "runs.sqlite", scope=built.scope,
    ).wait(60)  # fmt: skip
    model = model_of(run)
    memory, held = of_kind(model.everything(), "scopes")["memory"], model.watch.memory.held()
    assert memory["step"].tolist() == [0, 1, 7] and all(held)
    assert [column.tolist() for column in memory["bytes"]] == [[0, nbytes, nbytes] for nbytes in held]


def test_a_dashboard_made_after_a_loop_shows_its_newest_feed_and_its_drops(
    built: Built, batch: dict[str, Any], model_of: ModelOf
) -> None:
    exe = built.start().parallel(2)
    for step in range(300):
        exe.run([built.loss], feed={**batch, "x": batch["x"] + step})
    messages = model_of(exe).everything()
    fed, drops = of_kind(messages, "fed"), of_kind(messages, "scopes")["drops"]
    assert (fed["step"], fed["applied"], fed["feeds"]["rows"]["x"]) == (300, True, [3, 4])
    np.testing.assert_array_equal(fed["feeds"]["previews"]["x"][1]["rows"], (batch["x"] + 299)[3:6])
    assert drops["step"].tolist() == [100, 200, 300] and (drops["total"], drops["since"]) == (3, 0)
    assert drops["cause"] == ["interval"] * 3 and all(max(nbytes) > 0 for nbytes in drops["bytes"])


def test_the_page_gets_what_python_has_seen(built: Built, batch: Any, model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    told: list[dict[str, Any]] = []
    publisher = Publisher(model_of(exe), told.append)
    try:
        exe.run([built.loss], feed=batch)
        publisher.snapshot()
        deadline = time.monotonic() + 30
        while not any(m["type"] == "curves" and len(m["series"].get("cost", {}).get("mean", ())) == 1 for m in told):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        publisher.close()


def test_a_run_whose_length_nobody_chose_lasts_a_while(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    controls = model.controls
    assert controls.values()["steps"] == 20_000 and controls.values()["epochs"] is None
    controls.set({"steps": 20_000, "epochs": 2})  # what the page sends: all its fields
    assert controls.values()["steps"] is None and controls.setup().epochs == 2 and controls.setup().steps is None
    run = begin(model).wait(30)
    assert run.step == 2 * 10 and model.state()["run"]["values"]["epochs"] == 2
    controls.set({"epochs": None})
    lasting = controls.values()["steps"]
    assert 10 <= run.steps_per_second * 20 <= lasting <= run.steps_per_second * 20 * 2.5  # about 20 seconds
    assert lasting / 10 ** (len(str(lasting)) - 1) in (1, 2, 5)
    going_on = begin(model)
    assert going_on.steps == controls.values()["steps"] == lasting  # the page tells no other number while it goes on
    going_on.stop()
    going_on.wait(30)
    begin(model, steps=3, epochs=1).wait(30)
    assert model.run.step == 3  # whichever comes first


def test_the_length_a_run_was_given_is_kept_until_another_is_chosen(
    built: Built, loader: DataLoader, model_of: ModelOf
) -> None:
    run = wb.experiments.setup(built.main, loader, built.startup, steps=4).start(progress=False).wait(30)
    model = model_of(run)
    controls = model.controls
    assert (controls.values()["steps"], controls.values()["epochs"]) == (4, None)
    controls.set({"epochs": 3})
    assert (controls.values()["steps"], controls.values()["epochs"]) == (None, 3)
    controls.set({"epochs": None})
    assert controls.values()["steps"] == 4


def test_validation_data_become_curves_and_the_best_and_last_checkpoints_stay(
    built: Built, loader: DataLoader, model_of: ModelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = model_of(built.main)
    for wrong in ({"valid": "nothing"}, {"checkpoints": "worst"}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            model.controls.set(wrong)
    run = begin(model, valid="batches", checkpoints="best and last", epochs=3).wait(30)
    assert run.state == "done" and run.validated == [10, 20, 30]
    series = next(m for m in model.everything() if m["type"] == "curves")["series"]
    assert series["val_loss"]["step"].tolist() == [10, 20, 30] and len(series["loss"]["step"]) == 30
    np.testing.assert_allclose(series["val_loss"]["mean"], run.history["val_loss"], rtol=1e-6)
    assert model.state()["run"]["last"]["val_loss"] == run.history["val_loss"][-1]
    assert model.state()["run"]["values"]["valid"] == "batches"
    best = run.validated[int(np.argmin(run.history["val_loss"]))]
    names = {path.name for path in (tmp_path / "checkpoints" / "net").iterdir()}
    assert "last.checkpoint" in names and any(f"step-{best}" in name for name in names) and len(names) == 2
    again = begin(model, valid=None, checkpoints="last", epochs=1).wait(30)
    assert again.validated == [] and model.controls.values()["valid"] is None
    assert len(list((tmp_path / "checkpoints" / "net").iterdir())) == 3


def test_validation_data_of_a_setup_stay_its_own(built: Built, loader: DataLoader, model_of: ModelOf) -> None:
    setup = wb.experiments.setup(built.main, loader, built.startup, epochs=1, valid=loader.again(7, 0))
    model = model_of(setup.start(progress=False).wait(30))
    assert model.controls.values()["valid"] == f"validation data of {model.subject.name}"
    assert begin(model).wait(30).validated == [10]


# Runs that were begun elsewhere


def followed(model: Model) -> Any:
    """What it follows after the next look."""
    model.prepare()
    model.news()
    return model.run


def test_the_dashboard_of_a_program_follows_the_run_that_goes_on(
    built: Built, loader: DataLoader, model_of: ModelOf
) -> None:
    def train(**options: Any) -> Any:
        return wb.train(
            built.main, loader, 10**9, fetch=[built.loss], startup=built.startup, progress=False, record=False,
            paused=True, **options,
        )  # fmt: skip

    def ended(run: Any) -> Any:
        run.stop()
        return run.wait(30)

    before = ended(train())
    model = model_of(built.main)
    elsewhere = train(executor=built.parallel(2))
    assert followed(model) is None and before.finished and ended(elsewhere)
    first = train(devices=2)
    assert followed(model) is first and model.state()["run"]["state"] == "paused"
    assert model.watch.devices == ["cpu:0", "cpu:1"] and "pause" not in model.allowed()
    own, second = first, train()
    assert followed(model) is own  # its buttons are not taken away
    third = train()
    ended(own)
    assert followed(model) is third and len(model.state()["runs"]) == 2
    assert model_of(built.main).run is third  # a dashboard that comes late
    for run in (second, third):
        ended(run)
    assert followed(model) is third
    own = begin(model, steps=10**9)
    other = train()
    assert followed(model) is own
    model.command("stop", {})
    own.wait(30)
    assert followed(model) is other
    ended(other)

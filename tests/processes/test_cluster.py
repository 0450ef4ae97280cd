"""A cluster beside this process: it trains like devices of one process, is paused, loses ranks and goes on."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench import static
from workbench.checkpoint.files import read_tensors
from workbench.errors import ExecutionError, InvalidArgument, InvalidType, PreconditionNotMet, Unavailable
from workbench.executors.feeding.split import split_sizes
from workbench.experiments.launch import cluster
from workbench.experiments.launch.cluster import TrainingCluster
from workbench.experiments.training.loops import pipelined
from workbench.parallel.cluster import engines
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.rank_calls import message
from workbench.parallel.cluster.rank_errors import RankLost
from workbench.parallel.cluster.standing import Rank, Ranks
from workbench.parallel.cluster.trained import by_signature, divided, require_rows

LIMIT = 120


@pytest.fixture(scope="module")
def _started() -> Iterator[TrainingCluster]:
    for name in ("mpi4py", "ipyparallel"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"a cluster needs {name}: pip install -e '.[processes]'")
    with TrainingCluster(2) as started:
        yield started


@pytest.fixture
def ranks(_started: TrainingCluster) -> TrainingCluster:
    """Two that live, whatever the test before has left."""
    if not _started.alive:
        _started.restart()
    return _started


class Training:
    """A program with dropout, momentum and a schedule, and its data."""

    def __init__(self, rows: int = 48) -> None:
        wb.seed(5)
        self.main, self.startup, self.scope = static.Program(), static.Program(), static.Scope()
        with wb.utils.unique_name.guard(), static.program_guard(self.main, self.startup):
            x, label = static.data("x", [None, 6]), static.data("label", [None, 1], "int64")
            hidden = wb.nn.functional.dropout(static.nn.fc(x, 8, activation="tanh"), 0.25)
            self.loss = wb.nn.functional.cross_entropy(static.nn.fc(hidden, 3), label)
            rate = wb.optimizer.lr.StepDecay(0.2, step_size=5)
            wb.optimizer.Momentum(rate, 0.9).minimize(self.loss)
        draw = np.random.default_rng(0)
        data = draw.normal(size=(rows, 6)).astype(np.float32), draw.integers(0, 3, (rows, 1))
        self.loader = wb.io.DataLoader(wb.io.TensorDataset(list(data)), batch_size=7)
        static.Executor().run(self.startup, scope=self.scope)

    def train(self, **how: Any) -> Any:
        return wb.train(
            self.main, self.loader, fetch={"loss": self.loss}, scope=self.scope, progress=False, record=False, **how
        )

    def parameters(self) -> dict[str, np.ndarray]:
        return {v.name: self.scope.find_var(v.name).tensor.numpy() for v in self.main.persistables()}


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_two_ranks_train_with_the_bits_of_two_devices(ranks: Cluster) -> None:
    here, there = Training(), Training()
    alone = here.train(devices=2, epochs=2).wait(60)
    together = there.train(cluster=ranks, epochs=2).wait(60)
    assert together.history["loss"] == alone.history["loss"] and len(alone.history["loss"]) == 14
    mine, theirs = here.parameters(), there.parameters()
    assert mine.keys() == theirs.keys() and all(np.array_equal(mine[n], theirs[n]) for n in mine)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_many_steps_are_sent_at_once_and_only_as_data(ranks: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, int]] = []

    def noted(function: Any, arguments: Any) -> tuple[str, str, bytes]:
        parts = message(function, arguments)
        assert [type(part) for part in parts] == [str, str, bytes]
        sent.append((function.__name__, len(parts[2])))
        return parts

    monkeypatch.setattr(engines, "message", noted)
    for bound in ("_TOGETHER_S", "_LONGEST_S"):
        monkeypatch.setattr(pipelined, bound, 600.0)  # however slow this machine is
    training = Training()
    run = training.train(cluster=ranks, epochs=30).wait(100)
    steps = [size for name, size in sent if name == "run_steps"]
    assert run.step == 210 and len(steps) <= 2 * 8
    assert "open_program" not in [name for name, _ in sent[3:]]


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_run_holds_and_advances_and_its_ranks_tell_how_far_they_are(ranks: Cluster) -> None:
    run = Training().train(cluster=ranks, steps=200, paused=True)
    try:
        assert run.advance(3, timeout=30) and run.step == 3
        told = ranks.ranks()
        assert [(one.rank, one.step, one.state) for one in told] == [(0, 3, "training"), (1, 3, "training")]
        assert len({one.pid for one in told} | {os.getpid()}) == 3
    finally:
        run.stop()
        run.wait(30)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_ranks_in_the_middle_of_a_run_take_no_other_one(ranks: Cluster) -> None:
    first = Training().train(cluster=ranks, steps=20, paused=True)
    assert first.advance(2, timeout=30)
    with pytest.raises(PreconditionNotMet, match="training"):
        Training().train(cluster=ranks, steps=1).wait(30)
    first.resume()
    assert first.wait(60).step == 20
    assert Training().train(cluster=ranks, steps=1).wait(30).step == 1


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_step_that_fails_on_one_rank_is_applied_on_none(ranks: Cluster) -> None:
    training = Training()
    before = training.parameters()
    bad = [{"x": np.ones((4, 6), np.float32), "label": np.array([[0], [1], [2], [9]])}]
    training.loader = bad
    with pytest.raises(InvalidArgument, match=r"rank 1: .*label"):
        training.train(cluster=ranks, steps=1).wait(60)
    after = training.parameters()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    good = Training()
    assert good.train(cluster=ranks, steps=2).wait(60).step == 2


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_killed_rank_is_named_and_training_goes_on_from_the_checkpoint(ranks: Cluster, tmp_path: Any) -> None:
    whole = Training().train(devices=2, epochs=4).wait(60).history["loss"]
    first, path = Training(), tmp_path / "run.checkpoint"
    run = first.train(cluster=ranks, epochs=4, paused=True)
    assert run.advance(9, timeout=30)
    run.save(path)
    assert sorted(part.name for part in path.glob("save-*/*")) == [f"part-{i}.tensors" for i in range(3)]
    sizes = [len(read_tensors(part)[0]) for part in sorted(path.glob("save-*/*"))]
    assert all(sizes), sizes  # both ranks have written, and this process what is not theirs
    victim = ranks.ranks()[1]
    run.resume()
    threading.Timer(0.1, os.kill, (victim.pid, signal.SIGKILL)).start()
    start = time.monotonic()
    with pytest.raises(RankLost, match=r"rank 1 was ended by SIGKILL.*restart"):
        while True:
            run.wait(60)
            run = Training().train(cluster=ranks, epochs=4)  # it was done before the signal came
    assert time.monotonic() - start < 60
    assert [one.state for one in ranks.ranks()] == ["ended with rank 1", "was ended by SIGKILL"]
    ranks.restart()
    assert victim.pid not in [one.pid for one in ranks.ranks()]
    second = Training().train(cluster=ranks, epochs=4, checkpoint=path).wait(60)
    assert second.history["loss"] == whole
    alone = Training().train(devices=2, epochs=4, checkpoint=path).wait(60)
    assert alone.history["loss"] == whole


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_what_is_asked_wrongly_leaves_the_cluster_that_runs(ranks: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_running", [ranks])
    for wrong in ({"ranks": 0}, {"ranks": True}, {"ranks": 2, "devices": 0}, {"ranks": 2, "timeout": "long"},
                  {"ranks": 2, "timeout": 0}):  # fmt: skip
        with pytest.raises(InvalidArgument, match=r"a cluster takes .* got"):
            wb.distributed.cluster(**wrong)
    assert ranks.alive and ranks.timeout == 600.0
    assert wb.distributed.cluster(2, timeout=90.0) is ranks and ranks.timeout == 90.0
    ranks.wait_at_most(600.0)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_run_has_its_devices_here_or_in_a_cluster(ranks: Cluster) -> None:
    for other in ({"devices": 2}, {"executor": static.Executor()}):
        with pytest.raises(InvalidArgument, match=r"cluster=, executor= or devices=.*give one of them"):
            Training().train(cluster=ranks, steps=1, **other)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_what_is_closed_says_so() -> None:
    single = Cluster(1)
    run = Training().train(cluster=single, steps=10**6)
    while run.step < 3:
        time.sleep(0.01)
    for _ in range(2):
        single.close()
    assert repr(single) == "Cluster(1 rank of 1 device, closed)" and not single.alive
    for use in (single.ranks, single.restart, lambda: Training().train(cluster=single, steps=1).wait(60)):
        with pytest.raises(Unavailable, match=r"this cluster was closed; wb\.distributed\.cluster"):
            use()
    with pytest.raises(Unavailable, match="this cluster was closed"):
        run.wait(30)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_dashboard_shows_what_every_rank_does(ranks: Cluster, tmp_path: Path) -> None:
    training = Training()
    run = training.train(cluster=ranks, epochs=10**5, name="far", paused=True)
    page = wb.dashboard(run)
    before = page.messages()
    assert before["state"]["subject"]["unseen"] is None and "sample" not in before
    assert before["state"]["subject"]["devices"] == ["rank 0", "rank 1"] and before["graph"]["process"].tolist() == [
        0,
        1,
    ]
    assert before["state"]["runs"][-1]["label"] == "far, 2 ranks"
    assert run.advance(3, timeout=30)
    told = page.messages()
    sample, graph = told["sample"], told["graph"]
    batches = list(training.loader.again().arrays())
    assert sample["feeds"]["rows"] == {"x": [3, 4], "label": [3, 4]} and sample["feeds"]["first"]["x"] == [0, 3]
    shown = sample["feeds"]["previews"]["x"][1]["rows"][0]
    assert np.allclose(shown, batches[sample["step"] - 1][0][3])
    spans, types = sample["spans"], graph["tables"]["type"]
    assert set(spans["process"].tolist()) == {0, 1} and set(spans["device"].tolist()) == {-1, 0, 1}
    for node, label, device in zip(spans["node"], spans["label"], spans["device"], strict=True):
        assert types[graph["node"]["type"][node]] in sample["labels"][label].split("+")
        assert device < 0 or graph["node"]["device"][node] == device
    assert all(0 <= start <= end <= sample["seconds"] * 1e6 * 1.001 for start, end in zip(spans["start"], spans["end"]))
    assert sample["clocks"]["within"][0] == 0 < sample["clocks"]["within"][1] < 1e6
    parameters = {v.name for v in training.main.all_parameters()}
    assert {(one["name"], one["device"]) for one in told["scopes"]["live"] if one["kind"] == "parameter"} == {
        (name, device) for name in parameters for device in (0, 1)
    }
    assert len(told["scopes"]["memory"]["bytes"]) == 2 and "clocks of 2 ranks, aligned to ± " in repr(page)
    assert page.panel("timeline").figure() is not None
    *told_of, step = page._model.watch.events_of()
    assert step.step == sample["step"] - 1 and len(told_of) == len(spans["start"]) and step.feed_rows == (3, 4)
    page.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"rank 0", "rank 1"} <= {event["args"].get("name") for event in trace if event["ph"] == "M"}
    page.close()
    run.stop()
    run.wait(60)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_dashboard_made_at_a_hold_or_at_the_end_shows_what_every_rank_was_fed(ranks: Cluster) -> None:
    training = Training(rows=49)

    def hold(run: Any) -> None:
        if run.step == 5:
            run.pause()

    run = training.train(cluster=ranks, epochs=3, name="held", on_step=hold)
    batches = list(training.loader.again().arrays())
    deadline = time.monotonic() + 60
    while run.state != "paused" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert run.step == 5
    last = run.steps
    for step in (5, last):
        page = wb.dashboard(run)
        told = page.messages()
        fed, sample = told["fed"], told["sample"]
        assert (fed["step"], fed["applied"], sample["step"]) == (step, True, 2)
        assert fed["feeds"]["rows"]["x"] == [3, 4] and fed["feeds"]["devices"] == ["rank 0", "rank 1"]
        batch = batches[(step - 1) % len(batches)][0]
        assert np.allclose(fed["feeds"]["previews"]["x"][1]["rows"][0], batch[3])
        assert set(sample["spans"]["process"].tolist()) == {0, 1} and sample["slowest"] is not None
        assert {one["device"] for one in told["scopes"]["live"]} == {0, 1}
        assert len(told["scopes"]["memory"]["bytes"]) == 2
        page.close()
        run.resume()
        run.wait(60)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_drop_from_the_dashboard_gives_back_the_memory_of_all_ranks(ranks: Cluster) -> None:
    run = Training().train(cluster=ranks, epochs=10**5, paused=True)
    page = wb.dashboard(run)
    assert run.advance(3, timeout=30)
    watch = page._model.watch
    page.messages()
    assert watch.can_drop() and watch.drop() > 0 == watch.drop()
    assert run.advance(1, timeout=30)
    page.close()
    run.stop()
    run.wait(60)


def linear() -> Any:
    wb.seed(3)
    return wb.nn.Linear(6, 3)


def make_steps() -> Any:
    net = wb.DataParallel(linear())
    sgd = wb.optimizer.SGD(0.1, parameters=net.parameters())

    def step(x: Any, label: Any) -> Any:
        loss = wb.nn.functional.cross_entropy(net(x), label)
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return {"loss": loss, "rows": x.shape[0]}

    return step, net


def make_evaluated_steps() -> Any:
    step, net = make_steps()

    def evaluate(x: Any, label: Any) -> Any:
        assert not net.training and not wb.is_grad_enabled()
        return {"loss": wb.nn.functional.cross_entropy(net(x), label), "rows": x.shape[0]}

    return step, net, evaluate


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_the_ranks_evaluate_validation_data_of_a_step_function(ranks: TrainingCluster) -> None:
    data = Training(48).loader.dataset
    loader, others = wb.io.DataLoader(data, batch_size=8), wb.io.DataLoader(data, batch_size=13)
    wb.disable_static()
    how = {"fetch": ["loss", "rows"], "progress": False, "record": False}
    run = ranks.train(make_evaluated_steps, loader, steps=5, valid=others, valid_every=2, **how).wait(60)
    assert run.validated == [2, 4, 5] and run.step == 5
    net = linear()
    net.set_state_dict({name: wb.to_tensor(value) for name, value in run.executor.state_dict().items()})
    x, label = (wb.to_tensor(np.stack([row[part] for row in data])) for part in (0, 1))
    expected = float(wb.nn.functional.cross_entropy(net(x), label))
    assert run.history["val_loss"][-1] == pytest.approx(expected, rel=1e-5)
    parts = [7, 6, 7, 6, 7, 6, 5, 4]  # of 13, 13, 13 and 9 rows
    assert run.history["val_rows"] == pytest.approx([sum(n * n for n in parts) / 48] * 3)
    run = ranks.train(make_steps, loader, steps=2, valid=others, **how)
    with pytest.raises(InvalidArgument, match=r"return \(step, layer, evaluate\)"):
        run.wait(60)
    with pytest.raises(InvalidArgument, match="needs validation data"):
        ranks.train(make_steps, loader, valid_every=2, **how)
    assert ranks.train(make_steps, loader, steps=2, **how).wait(60).step == 2


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_step_function_trains_as_the_same_steps_do_in_one_process(ranks: TrainingCluster, tmp_path: Any) -> None:
    loader = wb.io.DataLoader(Training(48).loader.dataset, batch_size=8)
    wb.disable_static()
    recorded = {"record": tmp_path / "runs.sqlite", "settings": {"why": "a test"}}
    run = ranks.train(make_steps, loader, epochs=3, fetch=["loss", "rows"], progress=False, **recorded).wait(60)
    (one,) = wb.runs(tmp_path / "runs.sqlite")
    assert (one.step, one.settings["program"], one.settings["ranks"]) == (18, "make_steps", 2)
    assert one.settings["why"] == "a test" and one.scalars["loss"].tolist() == run.history["loss"]
    net = linear()
    sgd = wb.optimizer.SGD(0.1, parameters=net.parameters())
    losses = []
    for _ in range(3):
        for x, label in loader.again():
            loss = wb.nn.functional.cross_entropy(net(x), label)
            loss.backward()
            sgd.step()
            sgd.clear_grad()
            losses.append(float(loss))
    assert run.step == 18 and set(run.history["rows"]) == {4.0}
    np.testing.assert_allclose(run.history["loss"], losses, rtol=1e-5)
    held = run.executor.state_dict()
    for name, value in net.state_dict().items():
        np.testing.assert_allclose(held[name], value.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_step_function_that_fails_in_one_rank_ends_the_run_and_not_the_ranks(ranks: TrainingCluster) -> None:
    wb.disable_static()
    batches = [[np.ones((4, 2), np.float32) * k] for k in range(30)]

    def fails(x: Any) -> float:
        if wb.distributed.get_rank() == 1 and float(x.mean()) == 9:
            raise ValueError("the ninth")
        wb.distributed.barrier()
        return float(x.mean())

    start = time.monotonic()
    run = ranks.train(fails, batches, epochs=1, progress=False)
    with pytest.raises(ExecutionError, match="rank 1: ValueError: the ninth"):
        run.wait(60)
    assert run.history["loss"] == list(range(9)) and time.monotonic() - start < 30
    for wrong, said in (
        (lambda x: x, "returns numbers"),
        (lambda: 3, "returns the step function"),
        (lambda x: {"accuracy": 1.0}, "a dict of loss as fetch= says"),
    ):
        with pytest.raises(InvalidType, match=said):
            ranks.train(wrong, batches, steps=2, progress=False).wait(60)
    with pytest.raises(InvalidType, match="a Program or with a step function, got int"):
        ranks.train(3, batches)
    with pytest.raises(PreconditionNotMet, match="was not started by train"):
        run.save()
    wb.enable_static()
    program = Training()
    how = {"scope": program.scope, "progress": False, "record": False}
    assert ranks.train(program.main, program.loader, steps=2, **how).wait(60).step == 2
    assert len(ranks.ranks()) == 2


KILLED = """
import os, signal
from workbench.parallel.cluster.cluster import Cluster
made = Cluster(2)
print(*(one.pid for one in made.ranks()), made._engines._cluster.controller.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_nothing_is_left_of_the_cluster_of_a_process_that_was_killed() -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    pids = [int(pid) for pid in ended.stdout.split()]
    assert ended.returncode == -signal.SIGKILL and len(pids) == 3
    deadline = time.monotonic() + 30
    while left := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _runs(pid: int) -> bool:
    """Whether there is such a process that is not dead; one that has ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_who_fails_and_who_does_not_answer_is_named(ranks: Cluster) -> None:
    with pytest.raises(ExecutionError, match=r"rank 0: ValueError: .*non-negative"):
        ranks.ask_each(time.sleep, [(-1,), (60,)])  # rank 1 is interrupted, and there again
    with pytest.raises(TimeoutError, match=r"no answer from rank 1 within 5 s"):
        ranks.ask_each(time.sleep, [(0,), (60,)], timeout=5)
    assert [one.rank for one in ranks.ranks()] == [0, 1]


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_rank_that_ends_by_itself_is_named_with_its_exit_code(ranks: Cluster) -> None:
    with pytest.raises(RankLost, match=r"rank [01] ended with exit code 3"):
        ranks.ask_each(os._exit, [(3,), (3,)])
    ranks.restart()
    assert len(ranks.ranks()) == 2


@pytest.mark.processes
@pytest.mark.timeout(LIMIT)
def test_a_rank_that_goes_between_the_look_and_the_call_is_lost(
    ranks: TrainingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = ranks._engines

    def gone(client: Any, which: int) -> None:
        raise IndexError(f"No such engine: {which}")

    monkeypatch.setattr(type(started._client), "__getitem__", gone)
    monkeypatch.setattr(started, "_lost", None)
    monkeypatch.setattr(started, "_told", lambda: (1, "was ended by SIGKILL"))
    with pytest.raises(RankLost, match=r"rank 1 was ended by SIGKILL.*restart"):
        ranks.ask_each(time.sleep, [(0,), (0,)])


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 3))
def test_batches_are_divided_as_over_devices_of_one_process(rows: int, devices: int, count: int) -> None:
    feeds = [{"x": np.arange(rows * 2).reshape(rows, 2) + k, "y": np.arange(rows) * k} for k in range(count)]
    if rows < devices:
        with pytest.raises(InvalidArgument, match=f"{rows} rows cannot be divided over {devices} devices"):
            require_rows(feeds[0], devices)
        return
    require_rows(feeds[0], devices)
    parts = divided(feeds, devices).devices
    assert [part["x"].shape[1] for part in parts] == split_sizes(rows, devices)
    for k, feed in enumerate(feeds):
        assert all(np.array_equal(np.concatenate([p[n][k] for p in parts]), feed[n]) for n in feed)


def test_batches_of_other_shapes_are_not_sent_as_one() -> None:
    kinds = [(4, np.float32), (4, np.float32), (3, np.float32), (4, np.float32), (4, np.float64)]
    feeds = [{"x": np.full((rows, 2), k, dtype)} for k, (rows, dtype) in enumerate(kinds)]
    groups = [[int(feed["x"][0, 0]) for feed in together] for together in by_signature(feeds)]
    assert groups == [[0, 1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("feed", "said"),
    [
        ({"x": np.ones((4, 1)), "y": np.ones(3)}, "different numbers of rows"),
        ({"x": np.ones(())}, "'x' has none"),
    ],
)
def test_a_batch_that_has_no_rows_to_divide_is_refused(feed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        require_rows(feed, 2)


def test_the_table_of_ranks_lines_up_and_escapes() -> None:
    table = Ranks([Rank(0, "host", 12, 1, 3, "training", "net"), Rank(1, "<b>", 1234, 1, 3, "training", "net")])
    lines = repr(table).splitlines()
    assert lines[0].split("  ").count("steps here") == table._repr_html_().count("<th>steps here</th>") == 1
    assert len({line.index("training") for line in lines[1:]}) == 1 == len({line.index("state") for line in lines[:1]})
    assert "&lt;b&gt;" in table._repr_html_() and "<b>" not in table._repr_html_()
    assert [one.state for one in table.lost(1, "was ended by SIGKILL")] == ["ended with rank 1", "was ended by SIGKILL"]


def test_what_a_cluster_needs_is_said_with_what_to_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    with pytest.raises(
        wb.errors.Unavailable, match=r"(?s)\[processes\]'\n  then restart the kernel, and JupyterLab if it is"
    ):
        Cluster(2)

"""A loop that sends steps ahead: whoever looks sees what a loop that makes one at a time shows.

What makes the steps is a stand-in for the ranks of a cluster: it makes them here, when they are asked for, and refuses
what comes behind a step that has failed, as ranks do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.checkpoint.program_files import document_of
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.api.executor import Executor
from workbench.experiments.training import train
from workbench.experiments.training.loops import pipelined
from workbench.framework.text.deserialize import program_from_dict
from workbench.optimizer.lr import ReduceOnPlateau
from workbench.optimizer.lr.schedule import ConstantRate
from workbench.parallel.cluster.trained import ClusterExecutor, Outcome, Sent

ROWS = 4


class Near(ClusterExecutor):
    """Makes the steps in this process; `most` is how many were under way at once.

    It says that a step took `slow` seconds where its group has a number in there, else next to nothing.
    """

    def __init__(self, program: Any) -> None:
        self.program, self._executor, self._scope = program, Executor(), static.Scope()
        self._own = program_from_dict(document_of(program))
        self._own.lr_schedulers.update({name: ConstantRate(rate) for name, rate in self.rates().items()})
        self._waiting: list[Any] = []
        self.most, self.sizes, self.is_broken = 0, [], False
        self.slow: dict[int, float] = {}
        self._received = itertools.count()

    device_count, _is_here = 1, False

    @contextmanager
    def working(self, scope: Any) -> Iterator[None]:
        self._scope = scope
        yield

    def settle(self, scope: Any) -> None:
        assert not self._waiting, "somebody looks at parameters that are ahead"

    def send(self, steps: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]], fetched: Sequence[str]) -> Sent:
        self.sizes.append(len(steps))
        self._waiting += steps
        self.most = max(self.most, len(self._waiting))
        return Sent(len(steps), list(fetched))

    def receive(self, sent: Sent) -> Outcome:
        values: list[Any] = []
        seconds = self.slow.get(next(self._received), 1e-8) * sent.steps
        for _ in range(sent.steps):
            feed, rates = self._waiting.pop(0)
            try:
                if self.is_broken:
                    raise PreconditionNotMet("refused")
                values.append(self._step(feed, rates, sent.asked))
            except Exception as error:
                self.is_broken = True
                del self._waiting[: sent.steps - len(values) - 1]
                return Outcome(values, seconds, error)
        return Outcome(values, seconds, None)

    def _step(self, feed: Any, rates: Any, fetched: Any) -> Any:
        for name, rate in rates.items():
            self._own.lr_schedulers[name].last_lr = rate
        return self._executor.run(self._own, feed=feed, fetch_list=fetched, scope=self._scope)


class Batches:
    """Batches that do not tell how many they are."""

    def __init__(self, count: int, bad: int | None = None) -> None:
        draw = np.random.default_rng(0)
        self._feeds = [{"x": draw.normal(size=(ROWS, 3)).astype(np.float32)} for _ in range(count)]
        self._bad = bad

    def __iter__(self) -> Iterator[Any]:
        for number, feed in enumerate(self._feeds):
            if number == self._bad:
                raise ValueError("this batch cannot be read")
            yield feed


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def trained(monkeypatch: pytest.MonkeyPatch, is_ahead: bool, rate: Any = None, data: Any = None, **how: Any) -> Any:
    wb.seed(3)
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with wb.utils.unique_name.guard(), static.program_guard(main, startup):
        x = static.data("x", [None, 3])
        loss = wb.mean(static.nn.fc(x, 2) ** 2)
        wb.optimizer.SGD(0.1 if rate is None else rate()).minimize(loss)
    Executor().run(startup, scope=scope)
    near = Near(main)
    if is_ahead:
        monkeypatch.setattr(train, "on_cluster", lambda *_: near)
        how["cluster"] = "near"
    else:
        how["executor"] = Executor()
    data = list(Batches(5)) if data is None else data
    valid = {"valid": list(Batches(2))} if how.pop("valid", False) else {}
    run = wb.train(main, data, fetch={"loss": loss}, scope=scope, progress=False, record=False, **valid, **how)
    return run, near, scope, main


def outcome(run: Any, scope: Any, main: Any) -> Any:
    values = {v.name: scope.find_var(v.name).tensor.numpy().tolist() for v in main.persistables()}
    rates = {name: schedule.state_dict() for name, schedule in main.lr_schedulers.items()}
    return run.step, run.epoch, run.history, run.validated, values, rates


HOW = {
    "passes": {"epochs": 9},
    "steps": {"steps": 23},
    "no length": {"epochs": 4, "data": "stream"},
    "rate by step": {"epochs": 4, "rate": lambda: wb.optimizer.lr.ExponentialDecay(0.1, 0.9)},
    "rate by pass": {"epochs": 4, "lr_step": "epoch", "rate": lambda: wb.optimizer.lr.ExponentialDecay(0.1, 0.9)},
    "rate by pass, no length": {
        "epochs": 4, "lr_step": "epoch", "data": "stream", "rate": lambda: wb.optimizer.lr.ExponentialDecay(0.1, 0.9),
    },
    "rate by metric": {"epochs": 4, "rate": lambda: wb.optimizer.lr.ReduceOnPlateau(0.5, patience=0)},
    "rate by metric of passes": {
        "epochs": 5, "lr_step": "epoch", "rate": lambda: wb.optimizer.lr.ReduceOnPlateau(0.5, patience=0),
    },
    "validation": {"epochs": 4, "valid": True},
    "validation now and then": {"epochs": 4, "valid": True, "valid_every": 3},
    "validation, no length": {"epochs": 3, "valid": True, "data": "stream"},
}  # fmt: skip


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_what_comes_out_is_what_one_step_after_the_other_gives(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    outcomes = []
    for is_ahead in (False, True):
        data = Batches(5) if how.get("data") == "stream" else None
        run, near, scope, main = trained(monkeypatch, is_ahead, **{**how, "data": data})
        run.wait(60)
        outcomes.append(outcome(run, scope, main))
    assert outcomes[0] == outcomes[1]
    follows = any(isinstance(schedule, ReduceOnPlateau) for schedule in main.lr_schedulers.values())
    follows_every_step = follows and "lr_step" not in how
    assert (near.most > 1) is not follows_every_step


def test_steps_are_sent_in_ever_larger_groups_across_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    run, near, *_ = trained(monkeypatch, True, epochs=100, data=list(Batches(1)))
    assert run.wait(60).step == 100 and max(near.sizes) > 20 and len(near.sizes) < 12


def test_who_stops_waits_for_few_steps_even_if_they_have_become_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "_TOGETHER_S", 600.0)  # however slow this machine is
    run, near, *_ = trained(monkeypatch, True, epochs=400, data=list(Batches(5)), paused=True)
    near.slow = {12: 0.02}
    run.resume()
    assert run.wait(100).step == 2000
    assert near.most <= 200 and max(near.sizes) <= 100
    assert max(near.sizes[:12]) > 10 >= max(near.sizes[14:22]), near.sizes


def test_a_run_goes_on_by_exactly_as_many_steps_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run, near, *_ = trained(monkeypatch, True, epochs=1000, paused=True)
    for steps, at in ((1, 1), (7, 8), (100, 108)):
        assert run.advance(steps, timeout=30) and run.step == at == sum(near.sizes)
    run.stop()
    assert run.wait(30).step == sum(near.sizes)


def test_a_pause_comes_when_all_that_was_sent_has_been_made(monkeypatch: pytest.MonkeyPatch) -> None:
    run, near, *_ = trained(monkeypatch, True, epochs=10**6)
    assert run.pause(timeout=30)
    assert run.step == sum(near.sizes) == len(run.history["loss"])
    run.stop()
    run.wait(30)


def test_a_run_is_not_called_paused_while_steps_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(run: Any) -> None:
        if run.step >= 40:
            run.pause()
            seen.append((str(run.state), run.step == sum(near.sizes)))

    run, near, *_ = trained(monkeypatch, True, epochs=10**6, paused=True)
    run.subscribe(look, at_rest=False)
    run.resume()
    assert run._comes_to_rest(40, 30) and str(run.state) == "paused"
    assert ("running", False) in seen and all(state == "paused" or not is_all for state, is_all in seen)
    before = run.step
    assert run.advance(1, timeout=30) and run.step == before + 1
    run.stop()
    run.wait(30)


def test_who_looks_at_every_step_finds_no_other_one_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    seen = []

    def look(run: Any) -> None:
        seen.append((run.step, sum(near.sizes)))
        if run.step == 12:
            run.save(tmp_path / "twelve.checkpoint")
            run.stop()

    run, near, *_ = trained(monkeypatch, True, epochs=100, paused=True)
    run.subscribe(look)
    run.resume()
    assert run.wait(30).step == 12
    assert all(step == begun for step, begun in seen) and len(seen) >= 12


@pytest.mark.parametrize("looks", [{}, {"every_n_train_steps": 3}, {"every_n_epochs": 2}], ids=str)
def test_checkpoints_are_of_the_steps_they_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, looks: dict[str, int]
) -> None:
    kept = []
    for is_ahead in (False, True):
        folder = tmp_path / str(is_ahead)
        wanted = wb.ModelCheckpoint(folder, save_top_k=-1, **looks)
        run, *_ = trained(monkeypatch, is_ahead, epochs=6, checkpoints=wanted)
        run.wait(60)
        kept.append({path.name for path in folder.iterdir()})
    assert kept[0] == kept[1] and len(kept[0]) > 2
    run, _, scope, main = trained(monkeypatch, False, epochs=6)
    whole = outcome(run.wait(60), scope, main)
    name = min(kept[1])
    run, _, scope, main = trained(monkeypatch, True, epochs=6, checkpoint=folder / name)
    assert outcome(run.wait(60), scope, main) == whole


def test_trouble_with_a_batch_comes_behind_the_steps_before_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    run, *_ = trained(monkeypatch, True, epochs=1, data=Batches(9, bad=7))
    with pytest.raises(ValueError, match="cannot be read"):
        run.wait(30)
    assert run.step == 7 == len(run.history["loss"])
    run, *_ = trained(monkeypatch, True, epochs=3, data=Batches(0))
    with pytest.raises(InvalidArgument, match="the loader gave no batch"):
        run.wait(30)


def test_a_run_that_fails_ahead_of_what_is_known_is_not_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    feeds = list(Batches(40))
    feeds[20] = {"y": feeds[20]["x"]}
    run, *_ = trained(monkeypatch, True, epochs=1, data=feeds)
    with pytest.raises(InvalidArgument, match="y"):
        run.wait(30)
    assert run.step == 20 == len(run.history["loss"])
    with pytest.raises(PreconditionNotMet, match=r"failed behind step 20.*an earlier checkpoint"):
        run.save(tmp_path / "late.checkpoint")


def test_a_group_of_steps_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "_BYTES", 5 * ROWS * 3 * 4)
    run, near, *_ = trained(monkeypatch, True, epochs=20)
    run.wait(30)
    assert max(near.sizes) == 5

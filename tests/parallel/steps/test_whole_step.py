"""Steps that are one call of compiled code: the same steps, in every respect (promises 1 and 4)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from random import Random
from time import perf_counter_ns
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier
from tests.parallel.observe import bits, held
from tests.parallel.programs import drawn_model, randoms, sizes, strategies
from tests.parallel.random_models import feed as random_feed
from workbench import events, static
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.running import whole_step as module
from workbench.executors.running.step import bound_step
from workbench.runtime.native.arrays import array_layout
from workbench.runtime.storage.tensor import LoDTensor

OPTIMIZERS = [wb.optimizer.SGD, wb.optimizer.Momentum, wb.optimizer.Adam, wb.optimizer.AdamW]
F = wb.nn.functional
STEPS = 1 << 40  # of a version; above them stands the number of a single write


@pytest.fixture(autouse=True)
def on_the_tape(tape: None) -> None:
    """All of this is about kernels."""


class Run:
    """Steps of a model on one thread.

    Args:
        whole: else every step in its parts.
    """

    def __init__(self, model: Model, devices: int = 2, whole: bool = True, fetches: Any = None) -> None:
        self.model, self.whole = model.start(), whole
        self.exe = model.parallel(devices, **strategies(threads=1))
        self.fetches = [model.loss] if fetches is None else fetches

    def step(self, feed: Any, **options: Any) -> list[Any]:
        if self.whole:
            return self.exe.run(self.fetches, feed=feed, **options)
        with mock.patch.object(bound_step, "whole_step", return_value=None):
            return self.exe.run(self.fetches, feed=feed, **options)

    @property
    def prepared(self) -> Any:
        """The step as one call, after the first."""
        return self.exe.inspection.last_step.whole

    @property
    def state(self) -> Any:
        return held(self.exe, self.model.main)

    @property
    def versions(self) -> dict[Any, int]:
        """Steps counted on from what the last single write left, which no other run has."""
        names = [v.name for v in self.model.main.persistables()]
        tensors = {(n, i): self.exe.inspection.tensor(n, i) for n in names for i in range(self.exe.device_count)}
        return {key: tensor.version % STEPS for key, tensor in tensors.items()}


def calls_of(run: Run) -> Callable[[], int]:
    """How many steps were one call."""
    prepared = run.prepared
    assert prepared is not None
    return lambda: prepared.applied


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_results_state_and_versions_are_those_of_a_step_in_parts(optimizer: Any, devices: int) -> None:
    whole, parts = (Run(classifier(optimizer(0.05)), devices, flag) for flag in (True, False))
    for number in range(4):
        feed = batch(9, number)
        assert bits(whole.step(feed)) == bits(parts.step(feed))
        assert whole.state == parts.state and whole.versions == parts.versions
    assert calls_of(whole)() == 3 and parts.prepared is None
    assert whole.exe.inspection.steps == parts.exe.inspection.steps == 4


@settings(max_examples=25, deadline=None)
@given(random=randoms, size=sizes)
def test_any_program_gives_the_same_bits(random: Any, size: int) -> None:
    seed = random.randint(0, 1 << 30)
    runs = []
    for whole in (True, False):
        model = drawn_model(Random(seed), size, sparse=False, control=False)
        runs.append(Run(model, 2, whole))
    for number in range(3):
        given = random_feed(number, 8)
        assert bits(runs[0].step(given)) == bits(runs[1].step(given))
        assert runs[0].state == runs[1].state


def wide(rows: int, seed: int) -> dict[str, np.ndarray]:
    """A batch whose arrays are parts of larger ones, turned and spread."""
    plain = batch(rows, seed)
    turned = np.asfortranarray(plain["x"])
    spread = np.repeat(plain["y"], 2, axis=0)[::2]
    assert not turned.flags.c_contiguous and not spread.flags.c_contiguous
    return {"x": turned, "y": spread}


def test_feeds_that_do_not_lie_in_one_piece_go_the_other_way() -> None:
    whole, parts = (Run(classifier(), 2, flag) for flag in (True, False))
    for number in range(6):
        make = wide if number in (2, 3) else batch
        assert bits(whole.step(make(8, number))) == bits(parts.step(make(8, number)))
    assert whole.state == parts.state


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_feed_is_the_same_feed(data: Any) -> None:
    """Batches of all sizes, as dict or list, cut out of larger arrays, read-only, one after the other."""
    whole, parts = (Run(classifier(), 2, flag) for flag in (True, False))
    for number in range(data.draw(st.integers(2, 6))):
        rows = data.draw(st.integers(2, 9))
        large = batch(2 * rows, number)
        start = data.draw(st.integers(0, rows))
        feed: Any = {name: value[start : start + rows] for name, value in large.items()}
        if data.draw(st.booleans()):
            feed = [{n: v[:1] for n, v in feed.items()}, {n: v[1:] for n, v in feed.items()}]
        if data.draw(st.booleans()):
            large["x"].flags.writeable = False
        assert bits(whole.step(feed)) == bits(parts.step(feed))
    assert whole.state == parts.state


def test_what_is_fed_is_not_kept_nor_changed() -> None:
    run = Run(classifier())
    run.step(batch(8, 0))
    feed = batch(8, 1)
    before = {name: value.copy() for name, value in feed.items()}
    first = run.step(feed)
    kept = first[0].copy()
    feed["x"][:] = 7
    run.step(batch(8, 2))
    assert np.array_equal(first[0], kept) and np.array_equal(feed["y"], before["y"])


def test_several_fetches_of_any_kind() -> None:
    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        logits = static.nn.fc(x, 3)
        return wb.mean(F.softmax_with_cross_entropy(logits, y) + wb.cast(y, "float32") * 0.0)

    def run(whole: bool) -> Run:
        model = build(body, wb.optimizer.SGD(0.1))
        names = ["fc_0.tmp_0", "y", model.loss.name, "fc_0.w_0@GRAD", model.loss.name]
        return Run(model, 2, whole, names)

    whole, parts = run(True), run(False)
    for number in range(3):
        feed = batch(7, number)
        assert bits(whole.step(feed)) == bits(parts.step(feed))
        one = whole.step(feed, return_numpy=False)
        assert bits(one) == bits(parts.step(feed, return_numpy=False)) and all(isinstance(t, LoDTensor) for t in one)


def test_a_fetch_that_does_not_lie_in_one_piece_goes_the_other_way() -> None:
    """What is beside it does not make it better."""

    def body() -> Any:
        x = static.data("x", [6, 5])
        body.turned = wb.transpose(x, [1, 0]).name
        return wb.mean(static.nn.fc(x, 3))

    def run(whole: bool) -> Run:
        model = build(body, wb.optimizer.SGD(0.1))
        return Run(model, 1, whole, [model.loss.name, body.turned])

    whole, parts = run(True), run(False)
    for number in range(3):
        feed = {"x": batch(6, number)["x"]}
        fetched = whole.step(feed)
        assert bits(fetched) == bits(parts.step(feed))
        assert np.array_equal(fetched[1], feed["x"].T)
    assert whole.prepared is None


@pytest.mark.parametrize("fetch", ["fc_0.w_0", "fc_0.b_0"])
def test_what_the_commit_makes_is_fetched_after_it(fetch: str) -> None:
    whole, parts = (Run(classifier(), 2, flag, fetches=[fetch]) for flag in (True, False))
    for number in range(3):
        assert bits(whole.step(batch(8, number))) == bits(parts.step(batch(8, number)))
    assert whole.prepared is None


def test_a_bad_label_is_refused_and_the_next_step_is_as_good_as_ever() -> None:
    whole, parts = (Run(classifier(wb.optimizer.Adam(0.1)), 2, flag) for flag in (True, False))
    for run in (whole, parts):
        run.step(batch(8, 0))
        run.step(batch(8, 1))
    before, bad = whole.state, batch(8, 2)
    bad["y"][5] = 3
    texts = []
    for run in (whole, parts):
        with pytest.raises(InvalidArgument) as caught:
            run.step(bad)
        texts.append(str(caught.value))
    assert texts[0] == texts[1] and "cpu:1" in texts[0]
    assert whole.state == before and whole.exe.inspection.steps == 2
    for number in range(3, 6):
        assert bits(whole.step(batch(8, number))) == bits(parts.step(batch(8, number)))
    assert whole.state == parts.state and whole.prepared is not None


def test_a_rate_of_its_own_for_one_device() -> None:
    """Then the devices' updates have nothing in common (X-19)."""
    whole, parts = (Run(classifier(), 2, flag) for flag in (True, False))
    name = next(n for n in whole.model.main.global_block().vars if "learning_rate" in n)
    for number in range(6):
        feed: Any = batch(8, number)
        if number in (2, 3):
            feed[name] = np.array([0.1, 0.3], np.float32)
        assert bits(whole.step(feed)) == bits(parts.step(feed))
        assert whole.state == parts.state


def test_a_schedule_is_followed() -> None:
    def model() -> tuple[Any, Model]:
        schedule = wb.optimizer.lr.ExponentialDecay(0.5, 0.5)
        return schedule, classifier(wb.optimizer.SGD(schedule))

    (first, one), (second, other) = model(), model()
    whole, parts = Run(one), Run(other, whole=False)
    for number in range(4):
        assert bits(whole.step(batch(8, number))) == bits(parts.step(batch(8, number)))
        first.step()
        second.step()
    assert whole.state == parts.state and whole.prepared is None  # the rate is kept in the scope, too


def test_random_numbers_are_counted_as_ever() -> None:
    runs = [Run(classifier(extra=lambda h: F.dropout(h, 0.5)), 2, flag) for flag in (True, False)]
    for number in range(4):
        drawn = [bits(run.step(batch(8, number))) for run in runs]
        assert drawn[0] == drawn[1] and runs[0].state == runs[1].state


def test_a_value_set_between_steps_is_used() -> None:
    """X-24: on one device only; the replicas differ from then on."""
    whole, parts = (Run(classifier(wb.optimizer.Momentum(0.1)), 2, flag) for flag in (True, False))
    for number in range(5):
        if number == 2:
            for run in (whole, parts):
                tensor = run.exe.local_scope(1).find_var("fc_0.w_0").get_tensor()
                tensor.set(np.array(tensor) * 2)
        assert bits(whole.step(batch(8, number))) == bits(parts.step(batch(8, number)))
        assert whole.state == parts.state


def test_who_listens_is_told_of_every_step() -> None:
    run = Run(classifier())
    run.step(batch(8, 0))
    run.step(batch(8, 1))
    heard: list[Any] = []
    with events.subscribe(heard.append, events.Step, events.OpRun):
        before = perf_counter_ns()
        run.step(batch(8, 2))
        after = perf_counter_ns()
    run.step(batch(8, 3))
    (step,) = (e for e in heard if isinstance(e, events.Step))
    assert step.step == 2 and any(isinstance(e, events.OpRun) for e in heard) and run.exe.inspection.steps == 4
    assert before < step.start < step.end < after


class Made(dict[str, Any]):
    """Makes its arrays when they are asked for, as the files of `np.load` do."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name).copy()


def test_mappings_that_make_arrays_are_asked_once_and_their_arrays_kept() -> None:
    run, same = Run(classifier()), Run(classifier())
    for number in range(4):
        parts = [{name: np.split(a, 2)[i] for name, a in batch(8, number).items()} for i in range(2)]
        fed = run.exe.inspection.fed([Made(part) for part in parts])
        assert all(type(source) is dict for source in fed.sources)
        assert bits(run.step([Made(part) for part in parts])) == bits(same.step(parts))
    assert run.state == same.state


def before_the_call(function: Callable[[], Any]) -> Any:
    """Have something done when a step has its feed, right before it is one call."""
    run = module.WholeStep.run

    def then_run(self: module.WholeStep, *given: Any) -> Any:
        function()
        return run(self, *given)

    return mock.patch.object(module.WholeStep, "run", then_run)


@pytest.mark.parametrize("is_list", [False, True])
def test_a_feed_changed_by_another_thread_meanwhile(is_list: bool) -> None:
    """Every dict of a list is copied, too: neither clearing one nor putting other arrays in changes the step."""
    run, same = Run(classifier()), Run(classifier())
    for number in range(4):
        feed: Any = batch(8, number)
        if is_list:
            feed = [{name: np.split(array, 2)[i] for name, array in feed.items()} for i in range(2)]
        expected = same.step(copy.copy(feed))
        with before_the_call(partial(spoil, feed)):
            assert bits(run.step(feed)) == bits(expected)
    assert calls_of(run)() == 3 and run.state == same.state


def spoil(feed: Any) -> None:
    """What another thread may do to a feed that it has at hand."""
    dicts = feed if isinstance(feed, list) else [feed]
    for name, array in dicts[0].items():
        dicts[0][name] = array + 1
    for each in dicts[1:]:
        each.clear()


def test_a_parameter_that_lies_in_no_bucket_gets_another_version_in_every_step() -> None:
    run = Run(classifier(wb.optimizer.Momentum(0.1)), 1)
    names = [parameter.name for parameter in run.model.main.all_parameters()]
    for name in names:
        run.model.scope.find_var(name).get_tensor().is_fixed = True
    seen = []
    for number in range(5):
        run.step(batch(8, number))
        seen.append([run.exe.inspection.tensor(name, 0).version for name in names])
        assert all(run.exe.inspection.tensor(name, 0).bucket is None for name in names)
    for versions in zip(*seen, strict=True):
        assert len(set(versions)) == 5


def test_a_step_in_the_middle_of_another_is_refused() -> None:
    run, same = Run(classifier()), Run(classifier())

    for number in range(4):
        if number == 2:
            within = before_the_call(lambda: run.step(batch(8, 9)))
            with within, pytest.raises(PreconditionNotMet, match="under way"):
                run.step(batch(8, number))
        assert bits(run.step(batch(8, number))) == bits(same.step(batch(8, number)))
    assert run.state == same.state


def test_a_parameter_of_an_executor_that_has_run_can_be_copied() -> None:
    run = Run(classifier())
    run.step(batch(8, 0))
    tensor = run.exe.local_scope(0).find_var(run.model.main.all_parameters()[0].name).get_tensor()
    copied = copy.deepcopy(tensor)
    np.testing.assert_array_equal(copied.numpy(), tensor.numpy())
    before = copied.numpy()
    run.step(batch(8, 1))
    np.testing.assert_array_equal(copied.numpy(), before)
    assert (tensor.numpy() != before).any()


def test_an_unknown_layout_of_arrays_means_steps_in_parts() -> None:
    with mock.patch.object(module, "array_layout", return_value=None):
        run = Run(classifier())
        run.step(batch(8, 0))
        run.step(batch(8, 1))
    assert run.prepared is None


def test_numpy_arrays_lie_as_the_headers_say() -> None:
    assert array_layout() is not None

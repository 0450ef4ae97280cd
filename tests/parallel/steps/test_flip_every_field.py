"""Every field of both strategies, set to another value, does something one can see, is told, or is refused."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build
from workbench import events, static
from workbench.errors import EnforceNotMet, Unavailable
from workbench.executors.planning import schedule
from workbench.framework.notice import Notice
from workbench.graph.options import Option, Options
from workbench.graph.settings import ReduceStrategy

DEVICES, FEED = 2, {"X": np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)}


def change_a_constant(graph: Any) -> bool:
    """A pass that does not say it is exact: it changes a constant of the graph."""
    for node in graph.nodes:
        if node.type == "scale":
            node.attrs["scale"] = node.attrs["scale"] * 1.5
    return True


def inexact_pass(strategy: Any) -> None:
    strategy.append_pass(change_a_constant)


def reduce_mode(strategy: Any) -> None:
    strategy.reduce_strategy = ReduceStrategy.Reduce


def older_executor(strategy: Any) -> None:
    strategy.use_experimental_executor = False


# What a field needs to matter at all.
FIRST = {"exact": inexact_pass, "fuse_broadcast_ops": reduce_mode, "num_iteration_per_run": older_executor}


def others(field: str, option: Option[Any]) -> list[Any]:
    """Legal values other than the default, or than what the default is decided to be."""
    default = option.default
    if isinstance(default, Enum):
        return [member for member in type(default) if member is not default]
    if isinstance(default, bool):
        return [not default]
    if default is None:  # decided when it is compiled: on
        return [False]
    if isinstance(default, int):
        return [default + 1]
    if isinstance(default, float):
        return [1.0]
    if isinstance(default, tuple):
        return [("10.0.0.1:6170", "10.0.0.2:6170")]
    if isinstance(default, frozenset):
        return [frozenset({"conv2d"})]
    if field == "debug_graphviz_path":
        return ["drawn"]
    assert option.rule.expected.count("'") >= 4, f"how is {field} set to something else?"
    words = option.rule.expected.replace("'", "").split(" or ")
    return [word for word in words if word != default]


def fields(kind: type[Options]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}-{getattr(value, 'name', value)}")
        for name, option in kind.OPTIONS.items()
        for value in others(name, option)
    ]


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are written here, and even the smallest ops are worth threads of their own."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("FLOPS", 1e3), ("BYTES", 1e3), ("processors", lambda: 8)):
        monkeypatch.setattr(schedule, name, value)


def network() -> Model:
    """Something for every pass.

    Batch norm and relu, two norms added, add and activation, a chain, attention, a convolution, clip, momentum.
    """

    def attended() -> Any:
        query, key, value = (static.create_parameter([1, 256, 8], "float32") for _ in range(3))
        return wb.matmul(wb.nn.functional.softmax(wb.matmul(query, key, transpose_y=True)), value)

    def convolved() -> Any:
        return wb.nn.functional.conv2d(*(static.create_parameter([1, 1, 3, 3], "float32") for _ in range(2)))

    def body() -> Any:
        x = static.data("X", [None, 4])
        a = wb.nn.functional.relu(static.nn.batch_norm(static.nn.fc(x, 6)))
        b = wb.nn.functional.relu(static.nn.batch_norm(static.nn.fc(a, 6)) + a)
        return wb.mean(wb.tanh(static.nn.fc(b, 3, activation="sigmoid") * 2.0)) + wb.mean(attended() * convolved())

    clip = wb.nn.ClipGradByGlobalNorm(0.1)
    return build(body, wb.optimizer.Momentum(0.1, 0.9, grad_clip=clip)).start()


class Trial:
    """An executor with certain strategies, and ways to look at it."""

    def __init__(self, strategies: dict[type, Any]) -> None:
        self.model = network()
        options = {"build_strategy": strategies.get(static.BuildStrategy, static.BuildStrategy())}
        options["exec_strategy"] = strategies.get(static.ExecutionStrategy, static.ExecutionStrategy())
        self.pe = self.model.parallel(DEVICES, **options)
        self.told: list[Any] = []
        present = set(Path().iterdir())
        with events.subscribe(self.told.append, events.Feed, events.Step):
            self.pe.run([], feed=FEED)
        self.written = sorted(path.name for path in set(Path().iterdir()) - present)

    def graph(self) -> str:
        return str(self.pe.graph([self.model.loss]))

    def plan(self) -> str:
        return str(self.pe.plan(FEED, [self.model.loss]))

    def files(self) -> list[str]:
        return self.written

    def rows(self) -> list[Any]:
        return [event.rows["X"] for event in self.told if isinstance(event, events.Feed)]

    def steps(self) -> int:
        return sum(isinstance(event, events.Step) for event in self.told)

    def values(self) -> list[bytes]:
        return [value.tobytes() for value in self.model.values().values()]

    def drops(self) -> list[int]:
        steps: list[int] = []
        with events.subscribe(lambda event: steps.append(event.step), events.ScopeDrop):
            for _ in range(101):
                self.pe.run([], feed=FEED)
        return steps

    def patience(self) -> str:
        """Whether a step waits 2 s for a scope that another thread uses."""
        held = threading.Event()

        def hold() -> None:
            with self.model.scope.in_use():
                held.set()
                threading.Event().wait(2)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(10)
        try:
            self.pe.run([], feed=FEED)
            return "waits"
        except Unavailable:
            return "gives up"
        finally:
            holder.join(10)


LOOKS: list[Callable[[Trial], Any]] = [Trial.graph, Trial.plan, Trial.files, Trial.rows, Trial.steps, Trial.values]
LONG_LOOKS = [Trial.drops, Trial.patience]  # at what only an execution strategy has to do with; the last takes 2 s


def seen(before: Trial, after: Trial, looks: list[Callable[[Trial], Any]]) -> Iterator[str]:
    """Names of the looks that differ."""
    return (look.__name__ for look in looks if look(before) != look(after))


@pytest.mark.parametrize(("field", "value"), fields(static.BuildStrategy))
def test_build_strategy(field: str, value: Any) -> None:
    check(static.BuildStrategy, field, value)


@pytest.mark.parametrize(("field", "value"), fields(static.ExecutionStrategy))
def test_execution_strategy(field: str, value: Any) -> None:
    check(static.ExecutionStrategy, field, value)


def check(kind: type[Any], field: str, value: Any) -> None:
    base, flipped = kind(), kind()
    for strategy in (base, flipped):
        FIRST.get(field, lambda strategy: None)(strategy)
    setattr(flipped, field, value)
    assert getattr(flipped, field) != getattr(base, field)
    effect = kind.effect(field)
    if effect.kind == "error" or value is static.BuildStrategy.GradientScaleStrategy.Customized:
        with pytest.raises(EnforceNotMet, match=rf"{field}|num_trainers|@GRAD' is missing"):
            Trial({kind: flipped})
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        after = Trial({kind: flipped})
    notices = [str(w.message) for w in told if issubclass(w.category, Notice) and field in str(w.message)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        before = Trial({kind: base})
    looks = LOOKS if kind is static.BuildStrategy else LOOKS + LONG_LOOKS
    if field == "use_cuda":
        assert base.use_cuda is flipped.use_cuda is False  # what it runs on is told, not asked
    elif effect.kind == "notice":
        assert notices == [f"{kind.__name__}.{field} = {value!r} has no effect: {effect.reason}"]
        assert len(effect.reason) > 15 and not list(seen(before, after, looks[:7]))
    else:
        assert not notices
        where = next(seen(before, after, looks), None)
        assert where in (("graph", "plan", "files") if effect.kind == "graph" else [look.__name__ for look in looks])

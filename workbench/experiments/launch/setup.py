"""Setup: everything a run is made of, so that it can be made again, with one thing changed, or many times."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from numbers import Real
from typing import Any

import numpy as np

from workbench.data.loader import DataLoader
from workbench.errors import InvalidArgument, InvalidType, did_you_mean
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.experiments.run import Run
from workbench.experiments.training.loops.batches import feed_names, feed_of
from workbench.experiments.training.loops.initialising import rates_of
from workbench.experiments.training.train import labels_of, train
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.graph.loss import labelled_loss, loss_of
from workbench.graph.options import Options
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.devices import cpu_places
from workbench.runtime.storage.scope import Scope


@dataclass(frozen=True)
class Setup:
    """A training run that can be started any number of times, each time from the beginning and in a scope of its own.

    Attributes:
        program, startup: the main program with its updates, and what gives its variables their first values.
        data: a DataLoader, a dataset (`batch_size` is then needed), or batches that can be gone through again.
        fetch: what is recorded: {label: name}; the loss by default.
        devices: how many CPU devices.
        batch_size: rows of a batch, over all devices; None leaves the loader as it is.
        learning_rate: of all optimizers; None leaves the program's.
        seed: `random_seed` of both programs, and of the shuffles; None leaves them.
        steps, epochs, valid_every, stop_on_nan: as in `train`.
        valid: validation data, of the kinds of `data`.
        name: what the run is called.
        build, execution: fields of BuildStrategy and ExecutionStrategy that are set.
    """

    program: Program
    startup: Program
    data: Any
    fetch: Mapping[str, str] = field(default_factory=dict)
    devices: int = 1
    batch_size: int | None = None
    learning_rate: float | None = None
    seed: int | None = None
    steps: int | None = None
    epochs: int | None = None
    valid: Any = None
    valid_every: int | None = None
    stop_on_nan: bool = False
    name: str | None = None
    build: Mapping[str, Any] = field(default_factory=dict)
    execution: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, value in (("program", self.program), ("startup", self.startup)):
            if not isinstance(value, Program):
                raise InvalidType(f"a setup takes a Program as {what}, got {value!r}")
        rate = self.learning_rate
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= rate < math.inf):
            raise InvalidArgument(f"learning_rate is a number of at least 0, got {rate!r}")
        if not self.fetch:
            object.__setattr__(self, "fetch", labelled_loss(self.program))

    def with_(self, **changes: Any) -> Setup:
        """The same with some settings changed; fields of BuildStrategy and ExecutionStrategy go by their own names.

        Enums may be given as words: `reduce_strategy="Reduce"`.

        Raises:
            InvalidArgument: an unknown name, or a value out of range. InvalidType: the wrong kind of value.
        """
        own: dict[str, Any] = {}
        build, execution = dict(self.build), dict(self.execution)
        for name, value in changes.items():
            if name in SETTINGS or name == "valid":
                own[name] = value
            elif name in BuildStrategy.OPTIONS:
                build[name] = _checked(BuildStrategy, name, value)
            elif name in ExecutionStrategy.OPTIONS:
                execution[name] = _checked(ExecutionStrategy, name, value)
            else:
                known = [*SETTINGS, *BuildStrategy.OPTIONS, *ExecutionStrategy.OPTIONS]
                raise InvalidArgument(f"a setup has no setting {name!r}.{did_you_mean(name, known)}")
        return replace(self, **own, build=build, execution=execution)

    def start(self, on_step: Callable[[Run], None] | None = None, **options: Any) -> Run:
        """Begin a run of it; `run.setup` and `run.executor` lead back.

        Args:
            options: `record`, `settings`, `checkpoint`, `checkpoints`, `progress` and `paused`, as in `train`.

        Raises:
            EnforceNotMet: a setting does not fit the program or the data.
        """
        program, startup = self._programs()
        scope = Scope()
        Executor().run(startup, scope=scope)
        self._set_rates(program, scope)
        executor = self._executor(program, scope)
        run = train(
            program, self.loader(), self.steps, self.epochs, self.fetch, startup, executor, scope,
            on_step=on_step, name=self.name or self.program.name, valid=self.valid_loader(),
            valid_every=self.valid_every, stop_on_nan=self.stop_on_nan, **options,
        )  # fmt: skip
        run.setup = self
        return run

    def loader(self) -> Any:
        """Batches from the beginning: of a DataLoader, another one of the same dataset."""
        data = self.data
        if not isinstance(data, DataLoader):
            if self.batch_size is None:
                return data
            if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
                raise InvalidArgument(f"batch_size needs a DataLoader or a dataset, got {type(data).__name__}")
            if isinstance(data, list | tuple) and data:
                self._require_samples(data[0])
            return DataLoader(data, batch_size=self.batch_size, shuffle=True, drop_last=True, seed=self.seed or 0)
        return data.again(self.batch_size, self.seed)

    def _require_samples(self, first: Any) -> None:
        """What `batch_size` puts together has one dimension less than what is fed."""
        block, names = self.program.global_block(), feed_names(self.program)
        if not isinstance(first, Mapping | list | tuple) or len(first) != len(names):
            return
        for name, value in feed_of(first, names).items():
            variable = block.vars.get(name)
            if variable is not None and np.ndim(value) == len(variable.shape) > 0:
                raise InvalidArgument(
                    f"batch_size={self.batch_size} puts elements of the data together, and they are batches already: "
                    f"{name!r} is {list(np.shape(value))} in the first one\n  leave batch_size out, or give samples"
                )

    def valid_loader(self) -> Any:
        """Batches of the validation data, in order; None if there are none."""
        if self.valid is None or hasattr(self.valid, "__iter__"):
            return self.valid
        size = self.batch_size or getattr(self.data, "batch_size", None)
        if size is None or not (hasattr(self.valid, "__getitem__") and hasattr(self.valid, "__len__")):
            raise InvalidArgument(
                f"valid takes a DataLoader, batches, or, where batch_size is known, a dataset; got {self.valid!r}"
            )
        return DataLoader(self.valid, batch_size=size)

    def _programs(self) -> tuple[Program, Program]:
        """Copies, with schedules of their own."""
        program, startup = self.program.clone(), self.startup.clone()
        program.name = self.program.name
        program.lr_schedulers = copy.deepcopy(self.program.lr_schedulers)
        if self.seed is not None:
            program.random_seed = startup.random_seed = self.seed
        return program, startup

    def _set_rates(self, program: Program, scope: Scope) -> None:
        if self.learning_rate is None:
            return
        for name in rates_of(program):
            if name in program.lr_schedulers:
                kind = type(program.lr_schedulers[name]).__name__
                raise InvalidArgument(f"learning_rate cannot be set: the program's follows a schedule, {kind}")
            variable = scope.find_var(name)
            if variable is not None:
                variable.tensor.set(np.full_like(variable.tensor.array, self.learning_rate))

    def _executor(self, program: Program, scope: Scope) -> CompiledProgram:
        build, execution = BuildStrategy(), ExecutionStrategy()
        for options, given in ((build, self.build), (execution, self.execution)):
            for name, value in given.items():
                setattr(options, name, value)
        compiled = CompiledProgram(program).with_data_parallel(
            loss_of(program), build, execution, places=cpu_places(self.devices)
        )
        compiled.bind(scope)
        return compiled


_NO_SETTINGS = ("program", "startup", "data", "valid", "build", "execution")
SETTINGS = tuple(f.name for f in fields(Setup) if f.name not in _NO_SETTINGS)


def setup(
    program: Program,
    data: Any,
    startup: Program,
    fetch: Sequence[Variable | str] | Mapping[str, Variable | str] = (),
    **settings: Any,
) -> Setup:
    """A Setup; `settings` as in `Setup.with_`."""
    return Setup(program, startup, data, labels_of(fetch, "a setup")).with_(**settings)


def _checked(kind: type[Options], name: str, value: Any) -> Any:
    """A value for a field, from the word of an enum's member too."""
    default = kind.OPTIONS[name].default
    if isinstance(value, str) and isinstance(default, Enum):
        members = type(default).__members__
        if value not in members:
            hint = did_you_mean(value, members)
            raise InvalidArgument(f"{name} is one of {', '.join(members)}, got {value!r}.{hint}")
        value = members[value]
    return kind.OPTIONS[name].take(kind.__name__, value)

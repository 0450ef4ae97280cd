"""What the controls of the page are set to, what they may be set to, and the runs they begin."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.data.dataset import Dataset
from workbench.data.loader import DataLoader
from workbench.errors import InvalidArgument, did_you_mean, one_of
from workbench.executors.inspection.inspection import Inspection
from workbench.experiments.launch.setup import Setup, loss_of
from workbench.experiments.run import Run
from workbench.experiments.training.saving.model_checkpoint import ModelCheckpoint
from workbench.framework.program.program import Program
from workbench.graph.settings import ReduceStrategy
from workbench.notebook.dashboard.model.settings import SETTINGS, checked
from workbench.notebook.dashboard.model.subject import Subject
from workbench.notebook.dashboard.watching.watch import strategy_of
from workbench.notebook.messages import Message

LENGTHS = ("steps", "epochs")  # whichever comes first ends a run; choosing one takes the place of what was given
CHECKPOINTS = {"last": (0, True), "best": (1, False), "best and last": (1, True)}  # how many of the best, and the last
FOLDER = "checkpoints"  # where they go: a folder for every name of a run, in the current one
_NO_FILE = re.compile(r"[^\w.=,+ -]")  # characters that stand in no file's name
_DEVICES = 2  # of a program that has not run anywhere
_LASTING_S, _STEPS = 20.0, 20_000  # of a run whose length nobody chose; steps where it is not known how fast they are

Names = Callable[[], Mapping[str, Any]]
StartupOf = Callable[[Program, str], Program | None]


class Controls:
    """Settings for the next run.

    Args:
        subject: what the dashboard was made for. names: what the user's names stand for now.
        startup_of: the startup program of a program, by itself and by its name; None if it is not known.
    """

    def __init__(self, subject: Subject, names: Names, startup_of: StartupOf) -> None:
        self._subject, self._names, self._startup_of = subject, names, startup_of
        self._base: Setup | None = getattr(subject.run, "setup", None)
        self._chosen: dict[str, Any] = {}
        self._latest: Run | None = None

    def follow(self, run: Run) -> None:
        """A run has begun; how fast it was says how many steps the next one lasts."""
        self._latest = run

    # Choices

    def programs(self) -> dict[str, Program]:
        """Programs that can be trained, by name: those of the user, else the subject's own."""
        programs = {
            name: value for name, value in self._names().items() if isinstance(value, Program) and loss_of(value)
        }
        own = self._own_program()
        if own is not None and loss_of(own) and not any(_is(p, own) for p in programs.values()):
            name = self._subject.name
            programs[name if name not in programs else f"{name} of this dashboard"] = own
        return programs

    def _own_program(self) -> Program | None:
        """That of the subject, unless it takes Python to train it."""
        if self._base is not None:
            return self._base.program
        return None if self._subject.is_recorded else self._subject.program

    def sources(self) -> dict[str, Any]:
        """Loaders and datasets, by name: those of the user, else the subject's own."""
        sources = {name: value for name, value in self._names().items() if _gives_batches(value)}
        valid = self._base.valid if self._base is not None else None
        for what, own in (("data", self._own_data()), ("validation data", valid)):
            if own is not None and not any(value is own for value in sources.values()):
                sources[f"{what} of {self._subject.name}"] = own
        return sources

    def _chosen_data(self) -> Any:
        known = self.sources()
        return known.get(self._data(known) or "")

    def _own_data(self) -> Any:
        if self._base is not None:
            return self._base.data
        return getattr(self._subject.run, "loader", None)

    # Values

    def values(self) -> Message:
        """What is chosen, or stands to reason."""
        sources = self.sources()
        return {
            "program": self._program(self.programs()),
            "data": self._data(sources),
            "valid": self._valid(sources),
            "checkpoints": self._chosen.get("checkpoints"),
            **{name: self._chosen.get(name, self._given(name)) for name in SETTINGS if name not in LENGTHS},
            **self._lengths(),
        }

    def _lengths(self) -> dict[str, int | None]:
        """Steps and epochs: those chosen, else those given, else steps that last a while."""
        chosen = {name: self._chosen.get(name) for name in LENGTHS}
        for lengths in (chosen, {name: self._given(name) for name in LENGTHS}):
            if any(length is not None for length in lengths.values()):
                return lengths
        return {"steps": lasting_steps(self._latest), "epochs": None}

    def _program(self, known: Mapping[str, Program]) -> str | None:
        if self._chosen.get("program") in known:
            return str(self._chosen["program"])
        own = self._own_program()
        if own is None:
            return None if self._subject.is_recorded else next(iter(known), None)
        if not loss_of(own):
            return None  # another program than the one that is shown is trained only if it is chosen
        return next((name for name, program in known.items() if _is(program, own)), None)

    def _data(self, known: Mapping[str, Any]) -> str | None:
        if self._chosen.get("data") in known:
            return str(self._chosen["data"])
        own = self._own_data()
        mine = [name for name, value in known.items() if value is own]
        loaders = [name for name, value in known.items() if isinstance(value, DataLoader)]
        return next(iter([*mine, *loaders, *known]), None)

    def _valid(self, known: Mapping[str, Any]) -> str | None:
        if "valid" in self._chosen:
            return self._chosen["valid"] if self._chosen["valid"] in known else None
        own = self._base.valid if self._base is not None else None
        return next((name for name, value in known.items() if own is not None and value is own), None)

    def _given(self, name: str) -> Any:
        if name == "batch_size" and (data := self._chosen_data()) is not self._own_data():
            return getattr(data, "batch_size", None)
        if self._base is not None:
            return of_setup(self._base, name)
        if self._subject.executor is not None:
            return _of_executor(self._subject, self._subject.executor.inspection, name)
        own = self._own_program()
        devices = _DEVICES if own is None or loss_of(own) else 1  # without a loss there is nothing to split a batch for
        return {"devices": devices, "reduce_strategy": "AllReduce", "stop_on_nan": False}.get(name)

    def of_run(self, run: Run) -> Message | None:
        """What a run was begun with; None if it was not by a setup."""
        setup = run.setup
        if setup is None:
            return None
        sources = self.sources().items()
        names = {what: next((name for name, value in sources if value is own), None) for what, own in _data_of(setup)}
        return {"program": setup.name, **names, **{name: of_setup(setup, name) for name in SETTINGS}}

    def set(self, values: Mapping[str, Any]) -> None:
        """Choose; None takes a choice back.

        Raises:
            InvalidArgument: an unknown setting, or a value it does not take; then nothing is chosen.
        """
        known = ("program", "data", "valid", "checkpoints", *SETTINGS)
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InvalidArgument(f"the controls have no setting {name!r}; they have {one_of(known)}.{hint}")
        sources = self.sources()
        choices: dict[str, Mapping[str, Any]] = {
            "program": self.programs(), "data": sources, "valid": sources, "checkpoints": CHECKPOINTS,
        }  # fmt: skip
        taken = {name: _taken(name, value, choices.get(name)) for name, value in values.items()}
        untouched = self._lengths()
        for name, value in taken.items():
            if name in LENGTHS and name not in self._chosen and value == untouched[name]:
                continue  # what the page shows is not what the user chose
            if value is None and name != "valid":  # no validation data are a choice, too
                self._chosen.pop(name, None)
            else:
                self._chosen[name] = value

    def message(self) -> Message:
        """`values` and `choices` of the message `state`."""
        choices = {
            "program": list(self.programs()),
            "data": list(self.sources()),
            "valid": list(self.sources()),
            "checkpoints": list(CHECKPOINTS),
            "reduce_strategy": list(ReduceStrategy.__members__),
        }
        return {"values": self.values(), "choices": choices}

    # Runs

    def setup(self) -> Setup:
        """What the next run is made of.

        Raises:
            InvalidArgument: there is no program to train, no data, no startup program; or a setting does not fit.
        """
        values = self.values()
        plain = self._plain(values)
        setup = plain.with_(**_told(values), valid=self.sources().get(values["valid"]))
        # what is chosen stays chosen; what is taken back is again what it was before it was chosen
        self._base = plain.with_(**_told({name: self._given(name) for name in SETTINGS}))
        return setup

    def checkpoints(self, setup: Setup) -> ModelCheckpoint | None:
        """Which checkpoints a run of a setup keeps; the best by its loss, that of the validation data if it has any."""
        chosen = self._chosen.get("checkpoints")
        if chosen is None:
            return None
        best, last = CHECKPOINTS[chosen]
        loss = next((label for label, name in setup.fetch.items() if name == loss_of(setup.program)), None)
        monitor = f"val_{loss}" if loss is not None and setup.valid is not None else loss
        folder = _NO_FILE.sub("-", setup.name or setup.program.name or "run")
        return ModelCheckpoint(Path(FOLDER, folder), monitor, save_top_k=best, save_last=last)

    def _plain(self, values: Mapping[str, Any]) -> Setup:
        program, data = self.programs().get(values["program"]), self.sources().get(values["data"])
        if program is None:
            raise InvalidArgument("there is no program with a loss to train; build one with %%static_program")
        if data is None:
            raise InvalidArgument("there is nothing to feed: make a DataLoader, or a list of feeds, in the notebook")
        base = self._base
        if base is not None and base.program is program:
            plain = base.with_(name=values["program"])
            return plain if data is base.data else replace(plain, data=data, batch_size=None)
        startup = self._startup_of(program, values["program"])
        if startup is None:
            raise InvalidArgument(
                f"the startup program of {values['program']!r} is not known: build both with %%static_program, or call "
                f"it {values['program']}_startup"
            )
        fetch = getattr(self._subject.run, "fetch", {}) if program is self._subject.program else {}
        valid = base.valid if base is not None else None
        return Setup(program, startup, data, fetch, valid=valid, name=values["program"])


def lasting_steps(before: Run | None) -> int:
    """Steps for a while, a round number: 1, 2 or 5 times a power of ten.

    Args:
        before: how fast it was counts, if it has ended. While it goes on its own steps stand.
    """
    if before is not None and not before.finished:
        return before.steps or _STEPS
    if before is None or not before.steps_per_second:
        return _STEPS
    wanted = max(before.steps_per_second * _LASTING_S, 10.0)
    power = 10 ** math.floor(math.log10(wanted))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= wanted)


def _data_of(setup: Setup) -> list[tuple[str, Any]]:
    return [(what, own) for what in ("data", "valid") if (own := getattr(setup, what)) is not None]


def _is(program: Program, own: Program) -> bool:
    """Whether a program is the dashboard's own, or what an executor's copy was taken of."""
    return program is own or program.uid == own.copied


def _taken(name: str, value: Any, there: Mapping[str, Any] | None) -> Any:
    """A value as it is kept; `there` are the names it is one of, None where it is none."""
    if value is None or there is None:
        return None if value is None else checked(name, value)
    if not isinstance(value, str) or value not in there:
        raise InvalidArgument(f"{name} is the name of one of {one_of(there)}, got {value!r}")
    return value


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings there is something to say of; a length that is None is none."""
    return {name: values[name] for name in SETTINGS if values[name] is not None or name in LENGTHS}


def of_setup(setup: Setup, name: str) -> Any:
    """What a setup has for a setting of the controls; None where it leaves that to the program, data or executor."""
    if name == "batch_size":
        return setup.batch_size or getattr(setup.data, "batch_size", None)
    if name == "reduce_strategy":
        value = setup.build.get(name)
        return "AllReduce" if value is None else getattr(value, "name", str(value))
    if name in ("num_threads", "num_iteration_per_drop_scope"):
        return setup.execution.get(name)
    return getattr(setup, name)


def _of_executor(subject: Subject, engine: Inspection, name: str) -> Any:
    if name == "devices":
        return len(engine.places)
    if name == "reduce_strategy":
        return strategy_of(engine)
    if name in ("num_threads", "num_iteration_per_drop_scope"):
        return getattr(engine.execution, name) if engine.execution.is_set(name) else None
    if name == "batch_size":
        return getattr(getattr(subject.run, "loader", None), "batch_size", None)
    if name == "stop_on_nan":
        return False
    return getattr(subject.run, "steps", None) if name == "steps" else None


def _gives_batches(value: Any) -> bool:
    if isinstance(value, DataLoader | Dataset):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(batch, dict) for batch in value[:4])

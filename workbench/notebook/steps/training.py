"""What `%train` does: find the named things in the notebook, train, wait."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isfunction
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

from IPython.core.error import UsageError

from workbench import experiments
from workbench.checkpoint.parts import is_checkpoint, written_at
from workbench.errors import did_you_mean
from workbench.experiments import ModelCheckpoint, Run
from workbench.experiments.launch.cluster import running
from workbench.experiments.launch.resume import BEGUN_BY, checkpoint_of, newest_with_checkpoint, resumed_settings
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.tables.run_table import runs
from workbench.experiments.training.loops.kept import LAST, SUFFIX
from workbench.experiments.training.loops.step_functions import train_steps
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.layers.layer import Layer
from workbench.notebook.programs.session import Session
from workbench.notebook.steps.live import in_notebook, watch
from workbench.optimizer.optimizer import Optimizer
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.rank_steps import LOSS
from workbench.runtime.devices import MOST_CPUS

PRINTED: WeakSet[Run] = WeakSet()  # of what `%train` returned: it has shown the run, so its value is one line


@dataclass(frozen=True)
class Asked:
    """The options of `%train`, by the user's names.

    Attributes:
        fetch: names of Variables, or names inside the program; they label what the run records; if empty, the loss.
        valid: the name of what gives validation data.
        checkpoints: a folder; monitor, mode: of its `ModelCheckpoint`.
        stop_on_nan: end at the first step with a NaN. quiet: show nothing meanwhile.
        loss, optimizer: names of a Layer's, with dots where they are in something else.
        cluster: the name of a cluster, "" for the one that runs.
        fresh: start over. resume: go on from the last checkpoint: of the run of this number or name, the file or folder
            of this path, the last one of a folder of --checkpoints, "" of the newest run of what is trained.
        bound: the name the run gets at once. line: what was typed.
    """

    steps: int | None = None
    epochs: int | None = None
    fetch: tuple[str, ...] = ()
    devices: int | None = None
    valid: str | None = None
    valid_every: int | None = None
    checkpoints: str | None = None
    monitor: str | None = None
    mode: Literal["min", "max"] | None = None
    quiet: bool = False
    stop_on_nan: bool = False
    loss: str | None = None
    optimizer: str | None = None
    cluster: str | None = None
    fresh: bool = False
    resume: str | None = None
    bound: str | None = None
    line: str = ""

    def check(self) -> None:
        """Refuse what makes no sense.

        Raises:
            UsageError: a number that is too small, an option that needs another one.
        """
        for option, number, least in (
            ("--steps", self.steps, 0), ("--epochs", self.epochs, 0), ("--devices", self.devices, 1),
            ("--valid-every", self.valid_every, 1),
        ):  # fmt: skip
            if number is not None and number < least:
                raise UsageError(f"{option} takes a number of at least {least}, got {number}")
        if self.devices is not None and self.devices > MOST_CPUS:
            raise UsageError(f"--devices takes a number of at most {MOST_CPUS:,}, got {self.devices}")
        if self.valid_every is not None and self.valid is None:
            raise UsageError("--valid-every needs validation data: --valid NAME")
        if self.checkpoints is None and (self.monitor is not None or self.mode is not None):
            raise UsageError("--monitor and --mode choose which checkpoint is best: they need --checkpoints FOLDER")

    def kept(self) -> ModelCheckpoint | None:
        """Which checkpoints are kept."""
        if self.checkpoints is None:
            return None
        return ModelCheckpoint(self.checkpoints, self.monitor, self.mode or "min")


def train(session: Session, name: str, loader: str, asked: Asked) -> Run:
    """Train the program or layer called `name` on the batches of what is called `loader`, and wait for the end.

    Raises:
        UsageError: an unknown name, a number that is too small.
        Exception: what made the run fail.
    """
    __tracebackhide__ = True
    asked.check()
    if asked.bound is not None and asked.bound in (name, loader, asked.valid):
        raise UsageError(f"{asked.bound!r} is what is trained with; give the run another name")
    if isfunction(session.namespace.get(name)):
        return _shown(session, asked, _begun_with_function(session, name, loader, asked))
    target, options = _target(session, name, asked)
    batches = _batches(session, loader)
    run = experiments.train(
        target,
        batches,
        asked.steps,
        asked.epochs,
        progress=_progress(session, asked),
        name=name,
        devices=asked.devices,
        cluster=None if asked.cluster is None else _cluster(session, asked.cluster),
        valid=None if asked.valid is None else _batches(session, asked.valid),
        valid_every=asked.valid_every,
        checkpoints=asked.kept(),
        stop_on_nan=asked.stop_on_nan,
        fresh=asked.fresh,
        **_went_before(session, name, asked),
        **options,
    )
    return _shown(session, asked, run)


def _begun_with_function(session: Session, name: str, loader: str, asked: Asked) -> Run:
    """A run in a cluster, with a step function."""
    if asked.cluster is None:
        raise UsageError(f"{name!r} is a function, with which a cluster trains: %train {name} {loader} --cluster")
    for option, value in (
        ("--devices", asked.devices), ("--checkpoints", asked.checkpoints), ("--loss", asked.loss),
        ("--optimizer", asked.optimizer), ("--stop-on-nan", asked.stop_on_nan or None),
        ("--fresh", asked.fresh or None), ("--resume", asked.resume),
    ):  # fmt: skip
        if value is not None:
            raise UsageError(f"{option} is of a program or a Layer; {name!r} is a function, which does that itself")
    return train_steps(
        _cluster(session, asked.cluster),
        session.namespace[name],
        _batches(session, loader),
        asked.steps,
        asked.epochs,
        asked.fetch or (LOSS,),
        progress=_progress(session, asked),
        name=name,
        valid=None if asked.valid is None else _batches(session, asked.valid),
        valid_every=asked.valid_every,
    )


def _went_before(session: Session, name: str, asked: Asked) -> dict[str, Any]:
    """What the run goes on from, and what is recorded of how it was begun."""
    settings: dict[str, Any] = {BEGUN_BY: asked.line}
    if asked.resume is None:
        return {"settings": settings}
    if asked.fresh:
        raise UsageError("--fresh starts over, --resume goes on; choose one")
    before = _run_before(session, name, asked.resume)
    if isinstance(before, str):
        return {"settings": settings, "checkpoint": before}
    step, path = checkpoint_of(before, None)
    return {"settings": {**settings, **resumed_settings(before, step)}, "checkpoint": path}


def _run_before(session: Session, name: str, resume: str) -> Run | RecordedRun | str:
    """The run that `--resume` names, or the path of a checkpoint."""
    if not resume:
        return newest_with_checkpoint(name)
    if isinstance(known := session.namespace.get(resume), Run):
        return known
    if resume.isdecimal():
        return runs()[int(resume)]
    if is_checkpoint(Path(resume)):
        return resume
    if kept := [path for path in Path(resume).glob(f"{LAST}*{SUFFIX}") if is_checkpoint(path)]:
        return str(max(kept, key=written_at))  # several runs may have kept theirs in one folder
    names = {run.name for run in runs()}
    if resume in names:
        return newest_with_checkpoint(resume)
    raise UsageError(
        f"there is no run and no checkpoint {resume!r}.{did_you_mean(resume, names)} "
        f"--resume alone goes on from the newest run of {name!r}"
    )


def _progress(session: Session, asked: Asked) -> bool | None:
    return False if asked.quiet or in_notebook(session.shell) else None


def _shown(session: Session, asked: Asked, run: Run) -> Run:
    """Wait for the end of a run, and show it meanwhile."""
    __tracebackhide__ = True
    PRINTED.add(run)
    if asked.bound is not None:
        session.shell.push({asked.bound: run})  # before it ends: an interrupt leaves it there
    return watch(run) if in_notebook(session.shell) and not asked.quiet else run.wait()


def _target(session: Session, name: str, asked: Asked) -> tuple[Program | Layer, dict[str, Any]]:
    """What is trained, and what `train` takes besides for its kind."""
    given = session.namespace.get(name)
    if isinstance(given, Layer):
        return given, _of_layer(session, name, asked)
    program = session.program(name)
    if asked.loss is not None or asked.optimizer is not None:
        raise UsageError(f"--loss and --optimizer are of a Layer; the program {name!r} has its own, by minimize")
    variables = {label: _variable(session, program, label) for label in asked.fetch}
    return program, {"fetch": variables or None, "startup": session.startup_known(program, name)}


def _of_layer(session: Session, name: str, asked: Asked) -> dict[str, Any]:
    if asked.loss is None or asked.optimizer is None:
        known = [n for n, value in session.own().items() if isinstance(value, Optimizer)]
        raise UsageError(
            f"{name!r} is a Layer: say how it is trained, as in --loss F.cross_entropy --optimizer "
            f"{known[-1] if known else 'NAME'}"
        )
    called = {label.rpartition(".")[2]: _dotted(session, label) for label in asked.fetch}
    return {
        "fetch": called or None,
        "loss": _dotted(session, asked.loss),
        "optimizer": _dotted(session, asked.optimizer),
    }


def _cluster(session: Session, name: str) -> Cluster:
    chosen = session.own().get(name) if name else running()
    if not isinstance(chosen, Cluster):
        what = f"{name!r} is no cluster" if name else "no cluster runs"
        raise UsageError(f"{what}; cluster = wb.distributed.cluster(2) starts one")
    return chosen


def _dotted(session: Session, name: str) -> Any:
    """What the user calls `F.cross_entropy`."""
    first, *others = name.split(".")
    if first not in session.namespace:
        raise UsageError(f"there is no {first!r}.{did_you_mean(first, session.own())}")
    value = session.namespace[first]
    for other in others:
        if not hasattr(value, other):
            raise UsageError(f"{name!r}: there is no {other!r}.{did_you_mean(other, dir(value))}")
        value = getattr(value, other)
    return value


def _batches(session: Session, name: str) -> Any:
    """What the user calls `name`, which gives batches."""
    if name not in session.namespace:
        hint = did_you_mean(name, session.loaders())
        raise UsageError(f"there is no {name!r} to take batches from.{hint}")
    batches = session.namespace[name]
    if not hasattr(batches, "__iter__"):
        raise UsageError(f"{name!r} is of type {type(batches).__name__} and gives no batches")
    return batches


def _variable(session: Session, program: Program, label: str) -> str:
    """The name in `program` of what the user calls `label`."""
    block = program.global_block()
    value = session.namespace.get(label)
    name = value.name if isinstance(value, Variable) else label
    if block.has_var(name):
        return name
    mine = {n: v for n, v in session.namespace.items() if isinstance(v, Variable) and block.has_var(v.name)}
    hint = did_you_mean(label, {*mine, *block.vars})
    if isinstance(value, Variable):
        raise UsageError(f"{label!r} is a variable of another program; {program.name!r} has no {name!r}.{hint}")
    raise UsageError(f"program {program.name!r} has no variable {label!r}.{hint}")

"""Checkpoints of runs: everything the next step depends on, so that a run goes on bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.checkpoint.files import read_tensors, write_tensors
from workbench.checkpoint.parts import LoneWriter, PartWriters, read_manifest, read_parts, require_folder
from workbench.checkpoint.program_files import restoring, snapshot
from workbench.checkpoint.restore import Restore, as_before_on_error
from workbench.checkpoint.tree import flatten, unflatten
from workbench.data.loader import DataLoader
from workbench.data.sampler import random_sampler_of
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.inspection.device_values import Values, check_device_values, device_values, devices_restored
from workbench.experiments.runners import Inspectable, executor_of, settle
from workbench.experiments.training.loops.kept import KeptFiles
from workbench.experiments.training.loops.loop import TrainingLoop
from workbench.experiments.training.loops.position import Position
from workbench.experiments.training.loops.settings import program_hash
from workbench.framework.paths import path_text
from workbench.framework.program.program import Program
from workbench.runtime.standing import LAUNCHED, STARTS
from workbench.runtime.undisturbed import undisturbed

_ON = "device {place}: {name}"  # what a value of another device than 0 is called in the file
_HISTORY = "history: {number}"  # and what recorded values are, whose labels may be no text a tensor can be named by


class Origin(NamedTuple):
    """What wrote a checkpoint.

    Attributes:
        launched: the job of `workbench launch`, None of none. starts: how often that had been started before.
        step: after which it was written.
    """

    launched: str | None
    starts: int
    step: int


class Restorable:
    """A checkpoint that has been read and fits a loop in every part.

    Attributes:
        position: where the run goes on.
    """

    def __init__(self, loop: TrainingLoop, position: Position, values: Restore, own: Values, loader_state: Any) -> None:
        self.position = position
        self._loop, self._values, self._own, self._loader_state = loop, values, own, loader_state

    def value(self, name: str) -> np.ndarray | None:
        """What a variable of device 0 will hold, None if the checkpoint does not say."""
        return self._values.arrays.get(name)

    def apply(self) -> None:
        """Bring parameters, state, every device, schedules and loader to where the checkpoint was written.

        Raises:
            Exception: of a schedule or a loader of the user's that does not take its state; nothing has changed then.
        """
        with self._loop.scope.in_use():
            undisturbed(self._write)

    def _write(self) -> None:
        loop, executor = self._loop, executor_of(self._loop.executor)
        give = None if executor is None else devices_restored(executor, self._own, self._values.arrays)
        with as_before_on_error(*_movable(loop.loader)):
            if isinstance(loop.loader, DataLoader):
                loop.loader.load_state_dict(self._loader_state)
            self._values.write(loop.scope)
        if give is not None:
            give()


def _movable(loader: Any) -> list[Any]:
    """A loader, and what is moved with it."""
    if not isinstance(loader, DataLoader):
        return []
    sampler = random_sampler_of(loader.batch_sampler)
    return [loader] if sampler is None else [loader, sampler]


def write_checkpoint(
    loop: TrainingLoop, position: Position, path: str | os.PathLike[str], writers: PartWriters | None = None
) -> None:
    """Write a checkpoint between two steps; replaces what is there whole.

    Args:
        path: a file; a folder if several processes write, or if it is one already.
        writers: the processes that write it together, each its part; this one alone if not given.

    Raises:
        InvalidArgument: several write, and there is a file.
        PreconditionNotMet: the run has failed in a cluster, in the middle of steps that were sent ahead.
        OSError: it cannot be written; a file that was there is unchanged.
    """
    if loop.is_adrift:
        raise PreconditionNotMet(
            f"the run failed behind step {position.step}, with further steps on their way to the ranks: batches and "
            "schedules are ahead of it; go on from an earlier checkpoint"
        )
    settle(loop.executor, loop.scope)
    tensors, metadata = snapshot(loop.program, loop.scope)
    executor = executor_of(loop.executor)
    own = {} if executor is None else device_values(executor)
    tensors.update({_ON.format(place=place, name=name): array for (name, place), array in own.items()})
    histories = enumerate(position.history.values())
    tensors.update({_HISTORY.format(number=i): np.array(values, np.float64) for i, values in histories})
    metadata["run"], _ = flatten({
        "step": position.step, "passes": position.passes, "batches": position.batches, "metric": list(position.metric),
        "program_hash": program_hash(loop.program),
        "loader": loop.loader.state_dict() if isinstance(loop.loader, DataLoader) else None,
        "length": loop.length,
        "labels": list(position.history), "validated": position.validated, "val_labels": list(position.val_labels),
        "kept": None if position.kept is None else position.kept.as_document(),
        "own": [[name, place] for name, place in own],
        "devices": _device_count(executor), "fed": _fed(loop.program),
        "launched": os.environ.get(LAUNCHED), "starts": int(os.environ.get(STARTS, "0")),
    })  # fmt: skip
    folder = Path(path_text(path, "checkpoint"))
    if writers is None and not folder.is_dir():
        write_tensors(path, tensors, metadata)
        return
    require_folder(folder)
    (writers or LoneWriter()).write(folder, tensors, metadata)


def origin_of(path: Path) -> Origin:
    """What wrote a checkpoint of a run.

    Raises:
        InvalidArgument: no such checkpoint. OSError: it cannot be read.
    """
    metadata = read_manifest(path).document if path.is_dir() else read_tensors(path)[1]
    try:
        run = unflatten(metadata["run"], {})
        return Origin(run.get("launched"), int(run.get("starts", 0)), int(run["step"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"{path} is no checkpoint of a run: {error!r}") from error


def read_checkpoint(loop: TrainingLoop, path: str | os.PathLike[str]) -> Restorable:
    """Read a checkpoint for a loop that has not begun, and check it whole; nothing is changed.

    Raises:
        InvalidArgument: no checkpoint of a run, or of another program or loader; or, in a file, of another number of
            devices that hold values of their own.
    """
    path = path_text(path, "checkpoint")
    is_folder = os.path.isdir(path)
    tensors, metadata = read_parts(Path(path)) if is_folder else read_tensors(path)
    if not isinstance(metadata, dict):
        raise InvalidArgument(f"{path} is no checkpoint of a run")
    run = metadata.pop("run", None)
    if not isinstance(run, dict):
        raise InvalidArgument(f"{path} is no checkpoint of a run; static.load takes what static.save wrote")
    try:
        document = unflatten(run, {})
        if is_folder and document["devices"] != _device_count(executor_of(loop.executor)):
            _leave_out_own(tensors, document)
        return _checked(loop, path, tensors, metadata, document)
    except InvalidArgument as error:
        raise error if path in str(error) else InvalidArgument(f"{path} does not fit: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        raise InvalidArgument(f"{path} is no checkpoint of a run that this workbench reads: {error!r}") from error


def _leave_out_own(tensors: dict[str, np.ndarray], run: dict[str, Any]) -> None:
    """Statistics of single devices are left out where there are other devices: all of them begin with those of one."""
    for name, place in run["own"]:
        tensors.pop(_ON.format(place=place, name=name), None)
    run["own"] = []


def _checked(
    loop: TrainingLoop, path: str, tensors: dict[str, np.ndarray], metadata: dict[str, Any], run: dict[str, Any]
) -> Restorable:
    if run["program_hash"] != program_hash(loop.program):
        apart = _apart(loop.program, tensors) or _fed_apart(loop, run)
        raise InvalidArgument(f"it was written by a run of another program than {loop.program!r}{apart}")
    _require_loader(loop, run)
    history = {label: _numbers(tensors.pop(_HISTORY.format(number=i))) for i, label in enumerate(run["labels"])}
    own = {(name, place): tensors.pop(_ON.format(place=place, name=name)) for name, place in run["own"]}
    values = restoring(loop.program, path, tensors, metadata)
    _require_devices(executor_of(loop.executor), own, run["devices"], values.arrays)
    position = _position(run, history).recording(loop.labels, loop.val_labels)
    return Restorable(loop, position, values, own, run["loader"])


def _apart(program: Program, tensors: Mapping[str, Any]) -> str:
    """What a program has that a file has not; layers that are made again get other names."""
    names = [variable.name for variable in program.persistables()]
    known = [name for name in tensors if not name.startswith((_ON.partition("{")[0], _HISTORY.partition("{")[0]))]
    mine = sorted((name for name in names if name not in tensors), key=_shortest)
    theirs = sorted((name for name in known if name not in names), key=_shortest)
    if theirs:
        return f"; the file has {theirs[0]!r}, the program {repr(mine[0]) if mine else 'not'}"
    return f"; the program has {mine[0]!r}, the file not" if mine else ""


def _fed(program: Program) -> list[str]:
    """What a program is fed with: a recorded one knows the rows each device gets."""
    return [f"{v.name} {v.spec}" for v in program.global_block().vars.values() if v.is_data]


def _fed_apart(loop: TrainingLoop, run: Mapping[str, Any]) -> str:
    """The batches of both, where they differ or are spread over other numbers of devices."""
    theirs = _batch_text(run.get("fed", []), run["devices"])
    mine = _batch_text(_fed(loop.program), _device_count(executor_of(loop.executor)))
    return f"; that one took {theirs}, this one takes {mine}" if "fed" in run and theirs != mine else ""


def _batch_text(fed: Sequence[str], devices: int) -> str:
    return f"{', '.join(fed)} on {devices} device{'s' * (devices != 1)}"


def _shortest(name: str) -> tuple[int, str]:
    """Parameters come before their states, which begin with their names."""
    return len(name), name


def _position(run: Mapping[str, Any], history: dict[str, list[float]]) -> Position:
    step, passes, batches = (_count(name, run[name]) for name in ("step", "passes", "batches"))
    total, count = run["metric"]
    validated = [_count("validated", step) for step in run["validated"]]
    kept = None if run["kept"] is None else KeptFiles.from_document(run["kept"])
    return Position(
        step, passes, batches, (float(total), _count("metric", count)), history, validated,
        tuple(map(str, run["val_labels"])), kept,
    )  # fmt: skip


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"it has {value!r} as {name}, which is a number >= 0")
    return value


def _numbers(values: np.ndarray) -> list[float]:
    if values.ndim != 1 or values.dtype != np.float64:
        raise InvalidArgument(f"recorded values are float64 [steps], it has {values.dtype} {list(values.shape)}")
    numbers: list[float] = values.tolist()
    return numbers


def _require_loader(loop: TrainingLoop, run: Mapping[str, Any]) -> None:
    state, loader = run["loader"], loop.loader
    if (state is None) == isinstance(loader, DataLoader):
        was = "batches of another kind" if state is None else "a DataLoader"
        raise InvalidArgument(f"it was written by a run on {was}, this one takes a {type(loader).__name__}")
    if isinstance(loader, DataLoader):
        loader.check_state_dict(state)
    elif run["length"] != loop.length:
        was, mine = _batches(run["length"]), _batches(loop.length)
        raise InvalidArgument(f"it was written by a run on {was}, this one has {mine}")


def _batches(count: int | None) -> str:
    return "batches that were not counted" if count is None else f"{count} batches"


def _require_devices(executor: Inspectable | None, own: Values, devices: int, state: Mapping[str, np.ndarray]) -> None:
    """Values of single devices need the same number of them; without such values any number will do."""
    if not own:
        return
    mine = _device_count(executor)
    if devices != mine or executor is None:
        raise InvalidArgument(f"it was written by a run on {devices} devices, whose values differ; this one has {mine}")
    check_device_values(executor, own, state)


def _device_count(executor: Inspectable | None) -> int:
    return 1 if executor is None else len(executor.inspection.places)

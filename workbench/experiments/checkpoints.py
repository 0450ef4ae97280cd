"""Checkpoints of runs: everything the next step depends on, so that a run goes on bit for bit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.checkpoint.files import read_tensors, write_tensors
from workbench.checkpoint.program_files import restore, snapshot
from workbench.data.loader import DataLoader
from workbench.errors import InvalidArgument
from workbench.executors.device_values import device_values, set_device_values
from workbench.experiments.runners import engine_of
from workbench.experiments.settings import program_hash

if TYPE_CHECKING:
    from workbench.experiments.train import Loop

_ON = "device {place}: {name}"  # what a value of another device than 0 is called in the file
_HISTORY = "history: "  # and what stands before the labels of recorded values


class Position(NamedTuple):
    """Where a run is.

    Attributes:
        step: steps done. passes: begun ones but the last; batches: taken in the last one.
        metrics: the first fetch of every step since the schedules took one.
        history: as in `Run`.
    """

    step: int
    passes: int
    batches: int
    metrics: list[float]
    history: dict[str, list[float]]


def write_checkpoint(loop: Loop, position: Position, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint between two steps; replaces the file whole.

    Raises:
        OSError: it cannot be written; a file that was there is unchanged.
    """
    tensors, metadata = snapshot(loop.program, loop.scope)
    engine = engine_of(loop.executor)
    own = {} if engine is None else device_values(engine)
    tensors.update({_ON.format(place=place, name=name): array for (name, place), array in own.items()})
    tensors.update({_HISTORY + label: np.array(values) for label, values in position.history.items()})
    loader = loop.loader.state_dict() if isinstance(loop.loader, DataLoader) else None
    metadata["run"] = {
        "step": position.step, "passes": position.passes, "batches": position.batches, "metrics": position.metrics,
        "program_hash": program_hash(loop.program),
        "loader": loader,
        "own": [[name, place] for name, place in own],
    }  # fmt: skip
    write_tensors(path, tensors, metadata)


def read_checkpoint(loop: Loop, path: str | os.PathLike[str]) -> Position:
    """Bring a loop that has not begun to where the checkpoint was written.

    Raises:
        InvalidArgument: no checkpoint of a run, or of another program, loader or number of devices.
    """
    tensors, metadata = read_tensors(path)
    told = metadata.pop("run", None)
    if not isinstance(told, dict):
        raise InvalidArgument(f"{path} is no checkpoint of a run; static.load takes what static.save wrote")
    if told["program_hash"] != program_hash(loop.program):
        raise InvalidArgument(f"{path} was written by a run of another program than {loop.program!r}")
    history = {n.removeprefix(_HISTORY): tensors.pop(n).tolist() for n in list(tensors) if n.startswith(_HISTORY)}
    own = {(name, place): tensors.pop(_ON.format(place=place, name=name)) for name, place in told["own"]}
    _require_loader(loop.loader, told["loader"], path)
    engine = engine_of(loop.executor)
    if own and engine is None:
        raise InvalidArgument(f"{path} was written by a run on several devices, whose values differ")
    restore(loop.program, os.fspath(path), tensors, metadata, loop.scope)
    if engine is not None:
        set_device_values(engine, own)
    if isinstance(loop.loader, DataLoader):
        loop.loader.load_state_dict(told["loader"])
    return Position(told["step"], told["passes"], told["batches"], list(told["metrics"]), history)


def _require_loader(loader: Any, state: Any, path: object) -> None:
    if (state is None) == isinstance(loader, DataLoader):
        was = "batches of another kind" if state is None else "a DataLoader"
        raise InvalidArgument(f"{path} was written by a run on {was}, this one takes a {type(loader).__name__}")

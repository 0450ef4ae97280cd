"""Numbered checkpoints of a fleet of 1.x in one folder: the values of a program, and how far its training is.

    folder/__paddle_fleet_checkpoint__.3/_paddle_fleet_param__   parameters, accumulators, learning rate
    folder/__paddle_fleet_checkpoint__.3/fleet_train_status      {"epoch_no": 3}

A checkpoint is written under another name, `….tmp`, and then gets its own: one that is there is whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from workbench.checkpoint import model_folder
from workbench.checkpoint.atomic import read_file, replace_file
from workbench.errors import InvalidArgument, InvalidType, NotFound, Unimplemented
from workbench.executors.api.executor import Executor
from workbench.framework.notice import tell
from workbench.framework.paths import path_text
from workbench.framework.program.program import Program

VALUES, STATUS = "_paddle_fleet_param__", "fleet_train_status"
_PREFIX, _UNFINISHED = "__paddle_fleet_checkpoint__", ".tmp"
_NUMBERED = re.compile(rf"{_PREFIX}\.(\d+)")
_LARGEST_STATUS = 4096  # bytes
CACHE = ".cache"


class NoCheckpoint(NotFound, AssertionError):
    """There is no checkpoint in a folder; Paddle asserts that there is."""


class TrainStatus:
    """How far a training is.

    Args:
        epoch_no: the last epoch that is over, -1 before the first.

    Example:
        >>> from workbench.fluid.incubate.fleet.collective import TrainStatus
        >>> TrainStatus().next(), TrainStatus(3) == TrainStatus(3)
        (0, True)
    """

    def __init__(self, epoch_no: int = -1) -> None:
        if isinstance(epoch_no, bool) or not isinstance(epoch_no, int) or epoch_no < -1:
            raise InvalidArgument(f"TrainStatus takes the number of an epoch, from -1 on, got {epoch_no!r}")
        self._epoch_no = epoch_no

    def next(self) -> int:
        """The epoch to train now."""
        return self._epoch_no + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainStatus) and self._epoch_no == other._epoch_no

    def __hash__(self) -> int:
        return hash(self._epoch_no)

    def __repr__(self) -> str:
        return f"TrainStatus({self._epoch_no})"


def require_local(method: str, fs: Any, local_cache_path: Any) -> None:
    """The folder is one of this machine, or shared with it.

    Raises:
        Unimplemented: another file system.
    """
    if fs is not None:
        raise Unimplemented(f"fleet.{method} writes into folders of this machine, or shared ones; leave out fs={fs!r}")
    if local_cache_path != CACHE:
        tell(f"fleet.{method}: local_cache_path has no effect: nothing is copied before it is used")


def checkpoint_numbers(root: str | os.PathLike[str]) -> list[int]:
    """The numbers of the checkpoints in a folder, in order; none if there is no such folder."""
    folder = Path(path_text(root))
    names = [one.name for one in folder.iterdir() if one.is_dir()] if folder.is_dir() else []
    return sorted(int(name[1]) for name in map(_NUMBERED.fullmatch, names) if name)


def save(executor: Executor, root: str | os.PathLike[str], status: Any, program: Program) -> None:
    """Write a checkpoint with the next number.

    Raises:
        InvalidType: `status` is no TrainStatus. OSError: it cannot be written; there is none of that number then.
    """
    if not isinstance(status, TrainStatus):
        raise InvalidType(f"fleet.save_check_point takes a TrainStatus, got {status!r}")
    number = max(checkpoint_numbers(root), default=-1) + 1
    target = _folder(root, number)
    unfinished = target.with_name(target.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        model_folder.save_persistables(executor, unfinished, program, VALUES)
        replace_file(unfinished / STATUS, [json.dumps({"epoch_no": status._epoch_no}).encode()])
        os.rename(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def load(executor: Executor, root: str | os.PathLike[str], program: Program) -> TrainStatus | None:
    """Put back the newest checkpoint, values all or none; None if there is none.

    Raises:
        InvalidArgument: a damaged one, or one of another program.
    """
    numbers = checkpoint_numbers(root)
    if not numbers:
        return None
    folder = _folder(root, numbers[-1])
    status = _status(folder / STATUS)
    model_folder.load_persistables(executor, folder, program, VALUES)
    return status


def clean(root: str | os.PathLike[str], kept: int) -> None:
    """Remove checkpoints but the newest `kept` ones, of which there is at least one; and what was never finished."""
    for number in checkpoint_numbers(root)[: -max(kept, 1)]:
        shutil.rmtree(_folder(root, number))
    for left in Path(path_text(root)).glob(f"{_PREFIX}.*{_UNFINISHED}"):
        shutil.rmtree(left, ignore_errors=True)


def _folder(root: str | os.PathLike[str], number: int) -> Path:
    return Path(path_text(root)) / f"{_PREFIX}.{number}"


def _status(path: Path) -> TrainStatus:
    try:
        document = json.loads(read_file(path, _LARGEST_STATUS))
        return TrainStatus(document["epoch_no"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidArgument(f'{path} is no status of a training such as {{"epoch_no": 3}}: {error}') from None

"""State dicts that all ranks write together, and that any number of ranks can read; see `checkpoint.parts`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.parts import read_parts
from workbench.checkpoint.tree import flatten, unflatten
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, described, one_of
from workbench.framework.paths import path_text
from workbench.parallel.groups.alone import Alone
from workbench.parallel.groups.group import Group
from workbench.parallel.groups.writers import GroupWriters
from workbench.runtime.comm.base import peer_patience
from workbench.runtime.comm.mpi.world import is_started_by_mpi, world


def save_state_dict(
    state_dict: Mapping[str, Any], path: str | os.PathLike[str], process_group: Group | None = None
) -> None:
    """Write a state dict from all ranks together; what was saved there before is replaced whole or not at all.

    Args:
        state_dict: nested dicts of tensors, arrays, numbers and strings, the same on every rank: state dicts of layers,
            optimizers, schedules.
        path: a folder, which all ranks see; made if it is not there.
        process_group: the ranks that write; all of them, or this process alone, by default.

    Raises:
        InvalidType: something in it is no data. InvalidArgument: the ranks have different tensors in it; nothing is
            written. OSError: this rank cannot write its part.
        Unavailable: another rank cannot; names it. The checkpoint before is still there.

    Example:
        >>> net = wb.nn.Linear(2, 2)
        >>> wb.distributed.save_state_dict(net.state_dict(), "checkpoint")
        >>> wb.distributed.load_state_dict(net.state_dict(), "checkpoint")
    """
    structure, tensors = flatten(dict(_require_dict(state_dict, "save_state_dict")), "state_dict")
    if process_group is not None:
        group: Any = process_group.process_group
    else:
        group = world() if is_started_by_mpi() else Alone(peer_patience())
    GroupWriters(group).write_same(Path(path_text(path)), tensors, structure)


def load_state_dict(
    state_dict: Mapping[str, Any], path: str | os.PathLike[str], process_group: Group | None = None
) -> None:
    """Fill the tensors of a state dict with what `save_state_dict` wrote, from however many ranks.

    Every rank reads by itself; nothing is changed unless everything fits.

    Args:
        state_dict: of tensors with the names and shapes that were saved; other entries take the saved value if the
            dict can be changed. What was saved besides is left out.
        path: the folder.
        process_group: accepted for Paddle's sake.

    Raises:
        InvalidArgument: no checkpoint, a damaged one, a name that was not saved, another shape or dtype.
    """
    given, saved = _require_dict(state_dict, "load_state_dict"), read_state_dict(path)
    entries = list(_entries(given, saved, ""))
    for where, holder, key, value in entries:
        if isinstance(holder[key], Tensor):
            _require_fit(where, holder[key], value)
    for _, holder, key, value in entries:
        if isinstance(holder[key], Tensor):
            holder[key].set_value(value)
        else:
            holder[key] = value


def read_state_dict(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `save_state_dict` wrote: nested dicts, tensors as arrays.

    Raises:
        InvalidArgument: no checkpoint, or a damaged one. OSError: it cannot be read.
    """
    folder = Path(path_text(path))
    tensors, structure = read_parts(folder)
    try:
        state = unflatten(structure, tensors, np.asarray)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"{folder} holds no checkpoint that this workbench reads: {error}") from error
    if not isinstance(state, dict):
        raise InvalidArgument(f"{folder} holds {described(state)}, not a state dict")
    return state


def _require_dict(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidType(f"{what} takes a state dict, got {described(value)}")
    return value


def _entries(given: Any, saved: Any, where: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Of every entry: its place for messages, the dict it is in, its key there, what was saved."""
    missing = [f"{where}{name}" for name in given if not isinstance(saved, Mapping) or name not in saved]
    if missing:
        raise InvalidArgument(f"the checkpoint has no {one_of(missing)}")
    for name, target in given.items():
        if isinstance(target, Mapping):
            yield from _entries(target, saved[name], f"{where}{name}/")
        else:
            yield f"{where}{name}", given, name, saved[name]


def _require_fit(name: str, target: Tensor, value: Any) -> None:
    wanted, held = _form(target.numpy()), _form(value) if isinstance(value, np.ndarray) else described(value)
    if held != wanted:
        raise InvalidArgument(f"the checkpoint has {held} as {name}, expected {wanted}")


def _form(array: np.ndarray) -> str:
    return f"{array.dtype} {list(array.shape)}"

"""The files of a layer in training: its parameters, and the states of its optimizer beside them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from workbench.checkpoint.objects import load, save
from workbench.errors import InvalidArgument
from workbench.optimizer.optimizer import Optimizer

PARAMETERS, STATES = ".pdparams", ".pdopt"


def prepared_target(path: str | os.PathLike[str]) -> str:
    """What the files are called without their endings; their folder is made.

    Raises:
        InvalidArgument: a path that ends in a folder. OSError: the folder cannot be made.
    """
    target = os.fspath(path)
    if not os.path.basename(target):
        raise InvalidArgument(f"path has the form FOLDER/NAME, got {target!r}")
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    return target


def save_training(network: Any, optimizer: Optimizer | None, target: str) -> None:
    """Write parameters, and states if there are any."""
    save(network.state_dict(), target + PARAMETERS)
    if optimizer is not None and optimizer.state_dict():
        save(optimizer.state_dict(), target + STATES)


def load_training(network: Any, optimizer: Optimizer | None, path: str | os.PathLike[str], skip_mismatch: bool) -> None:
    """Read parameters, and states if there is an optimizer to take them and a file that has them.

    Raises:
        InvalidArgument: a parameter is missing or has another shape, unless `skip_mismatch`. OSError: no such file.
    """
    source = os.fspath(path).removesuffix(PARAMETERS)
    given, own = load(source + PARAMETERS), network.state_dict()
    fitting = {name: given[name] for name in own if name in given and _fits(given[name], own[name])}
    if not skip_mismatch and len(fitting) < len(own):
        wrong = next(name for name in own if name not in fitting)
        got = f"shape {list(np.shape(given[wrong]))}" if wrong in given else "nothing"
        expected = f"shape {list(own[wrong].shape)}"
        raise InvalidArgument(
            f"{source + PARAMETERS} does not fit parameter {wrong!r}\n  expected: {expected}\n  got:      {got}"
        )
    network.set_state_dict({**own, **fitting})
    if optimizer is not None and os.path.exists(source + STATES):
        optimizer.set_state_dict(load(source + STATES))


def _fits(value: Any, parameter: Any) -> bool:
    return list(np.shape(value)) == list(parameter.shape)

"""What a run is made with, as a flat dict of what JSON can hold."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, Unavailable
from workbench.executors.inspection.inspection import Inspection
from workbench.experiments.records.runs_file import RunsFile
from workbench.experiments.runners import Runner, executor_of
from workbench.framework.notice import tell
from workbench.framework.program.program import Program
from workbench.framework.text.serialize import program_to_dict
from workbench.framework.values.portable import config_of
from workbench.graph.options import show
from workbench.parallel.cluster.trained import ClusterExecutor

_ALWAYS = ("reduce_strategy", "num_iteration_per_drop_scope")  # as the page has them, whether they were set or not


def file_of(record: bool | str | os.PathLike[str]) -> RunsFile | None:
    """The file to record in; None if nothing is to be, or, with a notice, if there can be none."""
    if record is False:
        return None
    try:
        return RunsFile(None if isinstance(record, bool) else record)
    except Unavailable as error:
        tell(f"training goes on and cannot be recorded: {error}")
        return None


def settings_of(
    program: Program,
    loader: Any,
    executor: Runner,
    values: Callable[[str], np.ndarray | None],
    asked: Mapping[str, Any],
    own: Mapping[str, Any],
) -> dict[str, Any]:
    """All settings but the surroundings, which the recorder adds.

    Args:
        values: gives what variables hold at the first step, for learning rates; None of what has no value.
        asked: what `train` was told besides: steps, epochs …
        own: the user's, see `own_settings`.
    """
    settings: dict[str, Any] = {"program": program.name or "", "program_hash": program_hash(program)}
    inspectable = executor_of(executor)
    settings.update(seed=program.random_seed, executor=getattr(executor, "kind", type(executor).__name__))
    if inspectable is not None:
        settings.update(_of_executor(inspectable.inspection))
    elif isinstance(executor, ClusterExecutor):
        settings.update(devices=executor.device_count, ranks=executor.cluster.size, reduce_strategy="AllReduce")
    for name in ("batch_size", "shuffle", "drop_last"):
        if isinstance(value := getattr(loader, name, None), int):
            settings[name] = value
    settings.update(learning_rate=_rates(program, values), **asked)
    return {**_plain(settings), **own}


def own_settings(given: Any) -> dict[str, Any]:
    """What a user wants recorded, as JSON has it.

    Raises:
        InvalidType: no dict. InvalidArgument: a setting that contains itself, or that fails to be shown.
    """
    if not isinstance(given, Mapping):
        raise InvalidType(f"train takes a dict of names and values as settings, got {given!r}")
    settings = {}
    for name, value in given.items():
        try:
            settings[str(name)] = _plain(value)
        except RecursionError:
            raise InvalidArgument(f"the setting {name!r} contains itself, or goes too deep to be recorded") from None
        except Exception as error:
            raise InvalidArgument(f"the setting {name!r} cannot be recorded: {error!r}") from error
    return settings


def program_hash(program: Program) -> str | None:
    """What tells programs apart: operators, variables, attributes, schedules; not its name, its seed, how far it is.

    Returns:
        the first 16 hexadecimal digits of SHA-256 over the JSON of all that; None if it cannot be written as JSON.
    """
    try:
        document = program_to_dict(program)
    except EnforceNotMet:
        return None
    del document["name"], document["random_seed"]
    document["lr_schedulers"] = {name: _kind_of(scheduler) for name, scheduler in program.lr_schedulers.items()}
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kind_of(scheduler: Any) -> Any:
    """A schedule without what moves on."""
    name, config = config_of(scheduler) or (type(scheduler).__name__, {})
    return name, {key: value for key, value in config.items() if key != "state"}


def _of_executor(executor: Inspection) -> dict[str, Any]:
    settings: dict[str, Any] = {"devices": len(executor.places), "places": ", ".join(map(str, executor.places))}
    for options in (executor.build, executor.execution):
        names = [name for name in options.OPTIONS if name in _ALWAYS or options.is_set(name)]
        chosen = {name: getattr(options, name) for name in names}
        settings.update(
            {name: value.name if isinstance(value, Enum) else show(value) for name, value in chosen.items()}
        )
    return settings


def _rates(program: Program, values: Callable[[str], np.ndarray | None]) -> Any:
    """What the optimizers begin with, a number or the kind of the schedule; a list if there are several."""
    names = dict.fromkeys(n for op in program.all_ops() for n in op.inputs.get("LearningRate", ()))
    rates = [_rate(program, values, name) for name in names]
    return rates[0] if len(rates) == 1 else rates or None


def _rate(program: Program, values: Callable[[str], np.ndarray | None], name: str) -> Any:
    if name in program.lr_schedulers:
        return type(program.lr_schedulers[name]).__name__
    array = values(name)
    return None if array is None else float(f"{array.flat[0]:.7g}")


def _plain(value: Any) -> Any:
    """Text for what JSON cannot hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)

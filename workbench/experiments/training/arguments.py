"""What `train` is asked for: what is refused before anything is made."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, InvalidType, described
from workbench.experiments.training.loops.loop import Parts
from workbench.framework.program.program import Program
from workbench.layers.layer import Layer
from workbench.optimizer.lr import ReduceOnPlateau
from workbench.runtime.storage.scope import Scope


def check_kinds(program: Any, startup: Any, scope: Any, name: Any) -> None:
    """Refuse what is not of the kind that `train` takes.

    Raises:
        InvalidType: with the argument's name.
    """
    if not isinstance(program, Program | Layer):
        raise InvalidType(f"train takes a Program or a Layer, got {described(program)}")
    for what, given, kind in (("startup", startup, Program), ("scope", scope, Scope), ("name", name, str)):
        if given is not None and not isinstance(given, kind):
            raise InvalidType(f"train takes a {kind.__name__} as {what}, got {described(given)}")


def check_choices(steps: Any, epochs: Any, lr_step: Any, valid: Any, valid_every: Any) -> None:
    """Refuse counts that are none, and choices there are not.

    Raises:
        InvalidArgument: with the argument's name.
    """
    for what, count, least in (("steps", steps, 0), ("epochs", epochs, 0), ("valid_every", valid_every, 1)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < least):
            raise InvalidArgument(f"train takes a number >= {least} as {what}, got {count!r}")
    if valid_every is not None and valid is None:
        raise InvalidArgument("valid_every needs validation data: valid=")
    if lr_step not in ("step", "epoch", "never"):
        raise InvalidArgument(f"train takes 'step', 'epoch' or 'never' as lr_step, got {lr_step!r}")


def refuse_for_layers(fresh: bool, **arguments: Any) -> None:
    """Refuse what only a program is trained with.

    Raises:
        InvalidArgument: to start over, or one of the arguments is not None.
    """
    if fresh:
        raise InvalidArgument("a Layer is not started over here; make it, and its optimizer, again")
    for what, given in arguments.items():
        if given is not None:
            raise InvalidArgument(f"train takes no {what} for a Layer, whose parameters are in this process")


def refuse_for_programs(loss: Any, optimizer: Any) -> None:
    """Refuse what only a layer is trained with.

    Raises:
        InvalidArgument: one of them is not None.
    """
    if loss is not None or optimizer is not None:
        raise InvalidArgument("loss= and optimizer= are of a Layer; a Program has its own, by minimize")


def check_parts(parts: Parts, lr_step: str) -> None:
    """Refuse schedules without the metric they follow, and batches that are too small for the devices.

    Raises:
        InvalidArgument: with the schedule's name, or the rows and devices.
    """
    for name, scheduler in parts.program.lr_schedulers.items():
        if isinstance(scheduler, ReduceOnPlateau) and not parts.labels and lr_step != "never":
            raise InvalidArgument(
                f"the learning rate {name!r} is a ReduceOnPlateau, which follows a metric: name it first in fetch, as "
                "in fetch=[loss]; or pass lr_step='never' and call its step(metric) yourself"
            )
    check = getattr(parts.loader, "check_devices", None)
    if check is not None:
        check(getattr(parts.executor, "device_count", 1))

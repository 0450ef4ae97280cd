"""What the training loop is made of for a layer of dynamic mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.errors import PreconditionNotMet
from workbench.experiments.training.layers.layer_steps import OnLayer
from workbench.experiments.training.layers.layer_validation import LayerValidation
from workbench.experiments.training.loops.loop import Parts
from workbench.layers.layer import Layer


def of_layer(
    layer: Layer,
    loader: Iterable[Any],
    loss: Any,
    optimizer: Any,
    fetch: Any,
    devices: int | None,
    valid: Any,
    name: str,
) -> Parts:
    """See `OnLayer`.

    Args:
        fetch: {label: function of outputs and label} besides the loss. valid: validation data, None for none.

    Raises:
        InvalidType, InvalidArgument: an argument is wrong. EnforceNotMet: the layer does not take the first batch.
    """
    steps = OnLayer(layer, loader, loss, optimizer, fetch, devices, name)
    validation = None if valid is None else LayerValidation(valid, steps)
    return Parts(steps.program, steps.loader, steps.labels, steps, steps.scope, validation)


def require_recorded(runner: Any) -> None:
    """Refuse what is not there for steps that run op by op.

    Raises:
        PreconditionNotMet: the runner is of a layer whose steps could not be recorded.
    """
    if isinstance(runner, OnLayer) and runner.executor is None:
        raise PreconditionNotMet(
            "checkpoints and stop_on_nan need steps that can be recorded; paddle.save(layer.state_dict(), path) writes "
            f"the parameters\n  not recorded because: {runner.trouble}"
        )

"""What other devices hold that device 0 does not: statistics of their own batches, values set on one of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.errors import InvalidArgument
from workbench.executors.engine import Engine

Values = dict[tuple[str, int], np.ndarray]  # by name and device


def device_values(engine: Engine) -> Values:
    """Copies of all persistable values of devices 1 … that are not, bit for bit, those of device 0."""
    found: Values = {}
    if not engine.started:
        return found
    for name in engine.persistables:
        first = engine.replicas.find(name, 0)
        for place in range(1, len(engine.places)):
            tensor = engine.replicas.find(name, place)
            if first is None or tensor is None or tensor is first:
                continue
            if tensor.array.tobytes() != first.array.tobytes():
                found[name, place] = np.array(tensor.array)
    return found


def set_device_values(engine: Engine, values: Mapping[tuple[str, int], np.ndarray]) -> None:
    """Give devices values of their own, before the first step; the rest follows device 0.

    Raises:
        InvalidArgument: a device the engine does not have; nothing is changed.
    """
    for name, place in values:
        if not 0 < place < len(engine.places):
            raise InvalidArgument(f"there is a value of {name!r} on device {place}, and {len(engine.places)} devices")
    if not values:
        return
    engine.start()
    engine.replicas.distribute({name for name, _ in values}, ())
    for (name, place), array in values.items():
        engine.replicas.make(name, place).assign(array)

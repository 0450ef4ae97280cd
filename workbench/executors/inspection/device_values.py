"""What other devices hold that device 0 does not: statistics of their own batches, values set on one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from workbench.errors import InvalidArgument, one_of
from workbench.executors.inspection.debugging import Debugging
from workbench.executors.replicas.replicas import Replicas

Values = dict[tuple[str, int], np.ndarray]  # by name and device


def device_values(executor: Debugging) -> Values:
    """Copies of all persistable values of devices 1 … that are not, bit for bit, those of device 0."""
    values: Values = {}
    engine = executor._to_debug()
    if not engine.started:
        return values
    for name in engine.persistables:
        first = engine.replicas.find(name, 0)
        for place in range(1, len(engine.places)):
            tensor = engine.replicas.find(name, place)
            if first is None or tensor is None or tensor is first:
                continue
            if tensor.array.tobytes() != first.array.tobytes():
                values[name, place] = np.array(tensor.array)
    return values


def check_device_values(executor: Debugging, values: Values, state: Mapping[str, np.ndarray]) -> None:
    """Whether the executor's devices can hold values that `device_values` gave.

    Args:
        state: the values of device 0 that belong to them.

    Raises:
        InvalidArgument: no such device or variable, another shape or dtype, a variable that all devices share.
    """
    engine = executor._to_debug()
    for (name, place), array in values.items():
        first = state.get(name)
        if not 0 < place < len(engine.places):
            raise InvalidArgument(f"there is a value of {name!r} for device {place}, and {len(engine.places)} devices")
        if first is None or first.shape != array.shape or first.dtype != array.dtype:
            has = "none" if first is None else f"{first.dtype}{list(first.shape)}"
            got = f"{array.dtype}{list(array.shape)}"
            raise InvalidArgument(f"{engine.places[place]} has a value {got} of {name!r}, {engine.places[0]} {has}")
    shared = engine.shared_variables() & {name for name, _ in values}
    if shared:
        raise InvalidArgument(f"devices have values of their own of {one_of(shared)}, which all share here")


def devices_restored(executor: Debugging, values: Values, state: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """Room for the values of devices 1 …: their own, else those of device 0.

    Nobody may run from this call until the function it returns has been called, which gives them these values and
    allocates nothing. Devices that never ran get device 0's when they do.
    """
    engine = executor._to_debug()
    if values:
        engine.start()
    if not engine.started:
        return lambda: None
    if not engine.replicas.is_whole():
        engine.replicas.renew()
    own = {name for name, _ in values}
    places = range(1, len(engine.places))
    ready = {
        name: [_ready(engine.replicas, name, place, values.get((name, place), first)) for place in places]
        for name, first in state.items()
        if name in own or engine.replicas.are_apart(name)
    }

    def give() -> None:
        for name, arrays in ready.items():
            engine.replicas.give(name, arrays)

    return give


def _ready(replicas: Replicas, name: str, place: int, array: np.ndarray) -> np.ndarray:
    """An array to copy into a device's storage, or, where there is none for it, to become that."""
    tensor = replicas.find(name, place)
    if tensor is None or tensor is replicas.find(name, 0) or not tensor.holds(array):
        return np.array(array)
    tensor.part()  # while there may be no memory for that
    return array

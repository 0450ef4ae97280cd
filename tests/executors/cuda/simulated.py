"""Programs on simulated GPUs, beside the same on CPU devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.parallel.models import Model
from workbench import static
from workbench.config import override
from workbench.cuda import open_driver
from workbench.cuda.simulated.counting import MachineCounts, counts_of
from workbench.cuda.simulated.device import SimulatedDriver


@contextmanager
def gpus(count: int) -> Iterator[SimulatedDriver]:
    """So many simulated GPUs inside."""
    with override(simulated_gpus=count):
        driver = open_driver()
        assert isinstance(driver, SimulatedDriver)
        yield driver


def on_gpus(model: Model, **options: Any) -> static.ParallelExecutor:
    """A ParallelExecutor of a model over all GPUs there are."""
    options.setdefault("scope", model.scope)
    return static.ParallelExecutor(use_cuda=True, loss_name=model.loss.name, main_program=model.main, **options)


def trained(
    build: Callable[[], Model], make: Callable[[Model], Any], feeds: list[dict[str, np.ndarray]]
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The losses of a few steps, and all variables after them."""
    model = build().start()
    executor = make(model)
    losses = [np.array(executor.run([model.loss.name], feed=feed)[0]) for feed in feeds]
    return losses, model.values()


def counted(driver: SimulatedDriver, call: Callable[[], Any]) -> MachineCounts:
    """What a call asks of the machine."""
    before = counts_of(driver)
    call()
    return counts_of(driver) - before

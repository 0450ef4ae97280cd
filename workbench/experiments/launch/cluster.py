"""`cluster`: ranks beside the notebook that are reused from cell to cell, and train what they are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.experiments.run import Run
from workbench.experiments.training.loops.step_functions import train_steps
from workbench.experiments.training.train import train
from workbench.framework.program.program import Program
from workbench.parallel.cluster.cluster import Cluster, require_count


class TrainingCluster(Cluster):
    """A Cluster that is told what to train."""

    def train(self, target: Any, data: Iterable[Any], steps: int | None = None, **options: Any) -> Run:
        """Train a program, or with a step function of your own, in all ranks; returns at once, as `wb.train` does.

        A step function is called in every rank, step after step, with the fields of its part of each batch as tensors:
        `step(*fields)`, or `step(**fields)` where batches are dicts. It returns the loss, a number, or a dict of what
        `fetch` names. A function of no arguments is called once in every rank instead, and returns the step function,
        or that and the Layer it trains: there the model is made, as `DataParallel`, and its optimizer. For `valid` it
        returns a function that evaluates, too: called with a rank's part of a batch while the layer is in `eval()`
        mode and no gradients are recorded, it returns what the step function does; the means over all rows are
        recorded as `val_loss` … Either may be defined in a cell, and travels with what it refers to; what it does
        with the other ranks is its own affair.

        Args:
            target: a Program with its updates, or such a function.
            data: batches: a DataLoader or another iterable; each is divided over the ranks by its rows.
            options: those of `wb.train` for a program; `epochs`, `fetch`, `progress`, `name`, `record`, `settings`,
                `paused`, `valid`, `valid_every` for a function.

        Returns:
            the run. Of a step function `run.executor.state_dict()` gives what the Layer held in the end.

        Raises:
            InvalidType: neither a program nor a function that can be sent. What fails later `run.wait()` raises.

        Example:
            >>> def make():                                                   # doctest: +SKIP
            ...     net = wb.DataParallel(wb.nn.Linear(64, 10))
            ...     sgd = wb.optimizer.SGD(0.1, parameters=net.parameters())
            ...     def step(image, label):
            ...         loss = F.cross_entropy(net(image), label)
            ...         loss.backward()
            ...         sgd.step()
            ...         sgd.clear_grad()
            ...         return loss
            ...     def evaluate(image, label):
            ...         return F.cross_entropy(net(image), label)
            ...     return step, net, evaluate
            >>> run = cluster.train(make, batches, epochs=3, valid=others)    # doctest: +SKIP
        """
        if isinstance(target, Program):
            return train(target, data, steps, cluster=self, **options)
        return train_steps(self, target, data, steps, **options)


_running: list[TrainingCluster] = []


def cluster(ranks: int, devices: int = 1, timeout: float = 600.0) -> TrainingCluster:
    """Ranks beside this process; those of an earlier call, if it asked for as many and they are all alive.

    Args:
        ranks, devices, timeout: see `Cluster`.

    Example:
        >>> with wb.distributed.cluster(2) as ranks:       # doctest: +SKIP
        ...     run = wb.train(program, loader, cluster=ranks)
    """
    wanted = require_count("ranks", ranks), require_count("devices", devices)
    for known in list(_running):
        if known.alive and (known.size, known.devices) == wanted:
            known.wait_at_most(timeout)
            return known
        known.close()
        _running.remove(known)
    _running.append(TrainingCluster(ranks, devices, timeout))
    return _running[0]


def running() -> TrainingCluster | None:
    """The cluster that `cluster` gave last, None if there is none."""
    return _running[0] if _running else None

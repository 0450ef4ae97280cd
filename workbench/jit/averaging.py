"""Averaging: models of several processes (`DataParallel`) in what is recorded.

What is recorded runs as a program of several trainers then: all-reduces follow on the gradients, and a step is applied
by all processes or by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Protocol

from workbench.errors import InvalidArgument, Unimplemented
from workbench.graph.strategy import BuildStrategy
from workbench.jit.leaf_gradients import LeafGradients
from workbench.runtime.standing import standing

_INSTEAD = "leave out jit.capture, or go through the model in no_sync()"


class ProcessExchange(Protocol):
    """Of the gradients of some tensors over processes.

    Attributes:
        leaves: the tensors, by id. ranks: of the processes.
    """

    leaves: Mapping[int, Any]
    ranks: Sequence[int]


class Averaging:
    """The exchanges that forwards ask for while a function is recorded."""

    def __init__(self) -> None:
        self._exchanges: list[ProcessExchange] = []

    def note(self, exchange: ProcessExchange) -> None:
        """Gradients of what is computed from here on are means over processes."""
        if all(each is not exchange for each in self._exchanges):
            self._exchanges.append(exchange)

    def __bool__(self) -> bool:
        return bool(self._exchanges)

    def is_in(self, gradients: LeafGradients) -> bool:
        """Whether gradients were recorded that are means.

        Raises:
            Unimplemented: others were, too, or not all processes take part.
        """
        if not self._exchanges or not gradients.losses:
            return False
        size = standing().size
        for exchange in self._exchanges:
            if list(exchange.ranks) != list(range(size)):
                raise Unimplemented(
                    f"a captured step averages gradients over all {size} processes; this DataParallel model has a "
                    f"group of the ranks {list(exchange.ranks)}\n  {_INSTEAD}"
                )
        if len(gradients.losses) > 1 or any(each.reads for each in gradients.by_tensor.values()):
            raise Unimplemented(
                "a captured step of a DataParallel model has one backward() and adds its gradients to none: clear "
                f"them in every step\n  {_INSTEAD}"
            )
        for key, each in gradients.by_tensor.items():
            if not any(key in exchange.leaves for exchange in self._exchanges):
                raise Unimplemented(
                    f"{each.tensor.name!r} gets a gradient in this captured step and belongs to no DataParallel model, "
                    f"while others are averaged over the processes; wrap its layer, too\n  {_INSTEAD}"
                )
        return True


def among_trainers(build: BuildStrategy | None) -> BuildStrategy:
    """A strategy for a step that all processes make together.

    Raises:
        InvalidArgument: it is one for other trainers.
    """
    build, own = BuildStrategy() if build is None else copy(build), standing()
    if build.is_set("num_trainers") and (build.trainers, build.trainer_id) != (own.size, own.rank):
        raise InvalidArgument(
            "the build_strategy of a captured step of a DataParallel model is for other trainers\n"
            f"  expected: num_trainers={own.size}, trainer_id={own.rank}\n"
            f"  got:      num_trainers={build.trainers}, trainer_id={build.trainer_id}"
        )
    build.num_trainers, build.trainer_id = own.size, own.rank
    return build

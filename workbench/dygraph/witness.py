"""A witness: whoever records what Python does, and so has to know which values of tensors it looks at and writes.

An op that is applied is recorded. What is done with the value of a tensor by Python itself leaves no op behind.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Witness(Protocol):
    """What is told of values that Python deals with, in the thread and context it is set for."""

    def saw_made(self, tensor: Any) -> None:
        """A tensor was made from what is no tensor."""

    def saw_grad(self, tensor: Any, grad: Any) -> None:
        """`grad` of a tensor was asked for; None if there is none."""

    def saw_grad_replaced(self, tensor: Any, grad: Any) -> None:
        """Another `grad` is about to be set; this one was there."""

    def saw_read(self, tensor: Any) -> None:
        """The value of a tensor is about to be read."""

    def saw_write(self, tensor: Any, by: str) -> None:
        """The value of a tensor is about to be written by what is called `by`."""


witness: ContextVar[Witness | None] = ContextVar("workbench_witness", default=None)

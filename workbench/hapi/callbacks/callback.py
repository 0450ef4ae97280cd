"""Callback: what may be done at every stage of `Model.fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidType

Logs = dict[str, Any] | None


class Callback:
    """Does nothing; a subclass defines the stages it has something to do at.

    `logs` has the losses and metrics so far, the number of the `step` and the `batch_size`.

    Attributes:
        model: the `Model` that calls. params: of the call: `batch_size`, `epochs`, `steps`, `verbose`, `metrics`.

    Example:
        >>> class Printing(wb.callbacks.Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         print("epoch", epoch, sorted(logs))
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Take note of what was asked for."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take note of the model."""
        self.model = model

    def on_train_begin(self, logs: Logs = None) -> None:
        """Before `fit` begins."""

    def on_train_end(self, logs: Logs = None) -> None:
        """When `fit` has ended."""

    def on_eval_begin(self, logs: Logs = None) -> None:
        """Before an evaluation; `logs` has its `steps` and `metrics`."""

    def on_eval_end(self, logs: Logs = None) -> None:
        """After an evaluation."""

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Before `predict` begins; `logs` has its `steps`."""

    def on_predict_end(self, logs: Logs = None) -> None:
        """When `predict` has ended."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Before an epoch of `fit`."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """After an epoch of `fit`, before its evaluation."""

    def on_train_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Before a batch is trained on."""

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """After a batch was trained on."""

    def on_eval_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Before a batch is evaluated."""

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        """After a batch was evaluated."""

    def on_predict_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Before a batch is predicted."""

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        """After a batch was predicted."""


class CallbackList:
    """Calls the same stage of several callbacks, in order."""

    def __init__(self, callbacks: Sequence[Callback], model: Any, params: dict[str, Any]) -> None:
        self.callbacks = list(callbacks)
        for callback in self.callbacks:
            callback.set_model(model)
            callback.set_params(params)

    def call(self, stage: str, *args: Any) -> None:
        """Call `on_<stage>` of all."""
        for callback in self.callbacks:
            getattr(callback, f"on_{stage}")(*args)


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """One callback, or several, as a list.

    Raises:
        InvalidType: something else.
    """
    listed = list(callbacks) if isinstance(callbacks, list | tuple) else [] if callbacks is None else [callbacks]
    for callback in listed:
        if not isinstance(callback, Callback):
            raise InvalidType(f"callbacks are objects of classes derived from callbacks.Callback, got {callback!r}")
    return listed

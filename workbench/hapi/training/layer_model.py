"""Model: a layer with optimizer, loss and metrics, trained and evaluated in one call each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import jit
from workbench.dygraph.autograd.modes import no_grad
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.notice import tell
from workbench.framework.program.guard import in_static_mode
from workbench.hapi.batches import arrays, listed, loader_of, parted, rows_of, steps_of, tensors
from workbench.hapi.callbacks.callback import Callback, CallbackList, checked_callbacks
from workbench.hapi.callbacks.progress import ProgBarLogger
from workbench.hapi.callbacks.rates import ScheduleCallback
from workbench.hapi.callbacks.saving import SavingCallback
from workbench.hapi.callbacks.stopping import EarlyStopping
from workbench.hapi.training.saved import load_training, prepared_target, save_training
from workbench.metrics.metric import Metric
from workbench.optimizer.optimizer import Optimizer
from workbench.parallel.data_parallel.layer import DataParallel
from workbench.precision.auto_cast import auto_cast
from workbench.precision.grad_scaler import GradScaler
from workbench.runtime.standing import standing

AMP_KEYS = frozenset({"level", "dtype", "custom_white_list", "custom_black_list", "use_pure_fp16", "use_promote"})


class LayerModel:
    """Trains, evaluates and applies a layer.

    Args:
        network: the layer.
        inputs, labels: specifications (`static.InputSpec`), or lists of them; their number tells which fields of a
            batch are which. By default the last field is the label.

    Raises:
        InvalidType: no layer. PreconditionNotMet: in static mode.

    Example:
        >>> data = wb.io.TensorDataset([np.random.rand(8, 4).astype("float32"), np.arange(8) % 2])
        >>> model = wb.Model(wb.nn.Linear(4, 2))
        >>> optimizer = wb.optimizer.Adam(0.01, parameters=model.parameters())
        >>> model.prepare(optimizer, wb.nn.CrossEntropyLoss(), wb.metric.Accuracy())
        >>> model.fit(data, epochs=2, batch_size=4, verbose=0)
        >>> sorted(model.evaluate(data, batch_size=4, verbose=0))
        ['acc', 'loss']
    """

    def __init__(self, network: Any, inputs: Any = None, labels: Any = None) -> None:
        if not (callable(network) and hasattr(network, "state_dict") and hasattr(network, "parameters")):
            raise InvalidType(f"Model takes a Layer, got {type(network).__name__}")
        if in_static_mode():
            raise PreconditionNotMet("Model works in dynamic mode; call disable_static() first")
        self.network = network
        self.stop_training = False
        self._inputs, self._labels = inputs, labels
        self._input_count = None if inputs is None else len(listed(inputs))
        self._optimizer: Optimizer | None = None
        self._loss: Callable[..., Any] | None = None
        self._metrics: list[Metric] = []
        self._amp: dict[str, Any] | None = None
        self._scaler: GradScaler | None = None

    def prepare(self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None) -> None:
        """Say how the layer is trained and what is counted.

        Several processes train one layer if it is a `DataParallel`; otherwise each trains its own, with a notice.

        Args:
            optimizer: of its parameters. loss: function of outputs and labels, such as a loss layer.
            metrics: a `Metric` or a list of them.
            amp_configs: "O1", "O2", or a dict with `level`, arguments of `amp.auto_cast` and of `amp.GradScaler`.

        Raises:
            InvalidType: an argument of another kind. InvalidArgument: an unknown level.
        """
        if not (optimizer is None or isinstance(optimizer, Optimizer)):
            raise InvalidType(f"optimizer is an Optimizer, got {type(optimizer).__name__}")
        if not (loss is None or callable(loss)):
            raise InvalidType("'loss' must be sub classes of `paddle.nn.Layer` or any callable function.")
        for metric in listed(metrics):
            if not isinstance(metric, Metric):
                raise InvalidType(f"metrics are of classes derived from metric.Metric, got {type(metric).__name__}")
        self._optimizer, self._loss, self._metrics = optimizer, loss, listed(metrics)
        self._prepare_amp(amp_configs)
        if optimizer is not None:
            _tell_of_others(self.network)

    def _prepare_amp(self, configs: Any) -> None:
        given: dict[str, Any] = {"level": configs} if isinstance(configs, str) else dict(configs or {})
        level = given.get("level", "O0" if not given else "O1")
        if level not in ("O0", "O1", "O2"):
            raise InvalidArgument(f"amp_configs takes the levels 'O0', 'O1' and 'O2', got {level!r}")
        self._amp = self._scaler = None
        if level == "O0":
            return
        self._amp = {key: value for key, value in given.items() if key in AMP_KEYS and key != "use_pure_fp16"}
        self._scaler = GradScaler(**{key: value for key, value in given.items() if key not in AMP_KEYS})

    # Single batches

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Train on one batch.

        Args:
            inputs, labels: arrays or tensors, or lists of them.
            update: False adds up gradients only.

        Returns:
            the losses, as a list of arrays; with metrics the pair of it and the list of metrics.

        Raises:
            PreconditionNotMet: `prepare` was not given optimizer and loss.
        """
        if self._optimizer is None or self._loss is None:
            raise PreconditionNotMet("model not ready: call prepare(optimizer, loss) before it is trained")
        self.network.train()
        given, truth = tensors(inputs), tensors(labels)
        with auto_cast(enable=self._amp is not None, **(self._amp or {})):
            outputs = listed(self.network(*given))
            losses = listed(self._loss(*outputs, *truth))
            total = sum(losses[1:], losses[0])
        scaled = total if self._scaler is None else self._scaler.scale(total)
        scaled.backward()
        if update:
            if self._scaler is None:
                self._optimizer.step()
            else:
                self._scaler.minimize(self._optimizer, scaled)
            self._optimizer.clear_grad()
        return self._result(losses, outputs, truth)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Losses and metrics of one batch, as `train_batch` returns them."""
        with no_grad():
            self.network.eval()
            truth = tensors(labels)
            outputs = listed(self.network(*tensors(inputs)))
            losses = [] if self._loss is None else listed(self._loss(*outputs, *truth))
            return self._result(losses, outputs, truth)

    def predict_batch(self, inputs: Any) -> list[np.ndarray]:
        """The outputs for one batch, as a list of arrays."""
        with no_grad():
            self.network.eval()
            return arrays(self.network(*tensors(inputs)))

    def _result(self, losses: Sequence[Any], outputs: Sequence[Any], labels: Sequence[Any]) -> Any:
        with no_grad():
            scores = [metric.update(*arrays(metric.compute(*outputs, *labels))) for metric in self._metrics]
        told = arrays(losses)
        return (told, scores) if self._metrics and told else scores if self._metrics else told

    # Whole data sets

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: int = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train.

        Args:
            train_data, eval_data: a Dataset, a DataLoader, or batches that can be gone through again.
            batch_size, drop_last, shuffle, num_workers: how a Dataset is loaded.
            epochs: passes over the data. eval_freq: epochs between evaluations.
            log_freq, verbose: see `callbacks.ProgBarLogger`. save_dir, save_freq: see `callbacks.ModelCheckpoint`.
            callbacks: a `Callback` or a list of them.
            accumulate_grad_batches: batches whose gradients are added up for one update.
            num_iters: batches after which training ends.
        """
        if train_data is None:
            raise InvalidType("fit needs train_data: a Dataset, a DataLoader or batches")
        loader = loader_of(train_data, "train_data", batch_size, shuffle, drop_last, num_workers)
        valid = loader_of(eval_data, "eval_data", batch_size, False, False, num_workers)
        steps = steps_of(loader)
        called = self._callbacks(
            callbacks, batch_size, epochs, steps, log_freq, verbose, save_freq, save_dir, is_training=True
        )
        self.stop_training = False
        left, logs = num_iters, dict[str, Any]()
        called.call("train_begin", None)
        for epoch in range(epochs):
            called.call("epoch_begin", epoch, None)
            logs = self._pass(loader, called, "train", accumulate_grad_batches, left)
            called.call("epoch_end", epoch, logs)
            if valid is not None and epoch % eval_freq == 0:
                logs = self._evaluated(valid, called, None)
            left = None if left is None else left - logs.get("step", -1) - 1
            if self.stop_training or (left is not None and left <= 0):
                break
        called.call("train_end", logs)

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Losses and metrics of a data set.

        Args:
            as of `fit`.

        Returns:
            by name: the losses of the last batch as a list, and every metric of all batches.
        """
        loader = loader_of(eval_data, "eval_data", batch_size, False, False, num_workers)
        called = self._callbacks(callbacks, batch_size, None, steps_of(loader), log_freq, verbose)
        logs = self._evaluated(loader, called, num_iters)
        return {name: logs[name] for name in self._names() if name in logs}

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """The outputs for a data set; fields that are labels are left out.

        Returns:
            an entry per output of the layer: a tuple of arrays, one per batch, or with `stack_outputs` one array.
        """
        loader = loader_of(test_data, "test_data", batch_size, False, False, num_workers)
        called = self._callbacks(callbacks, batch_size, None, steps_of(loader), 1, verbose)
        called.call("predict_begin", {"steps": steps_of(loader)})
        outputs, logs = [], dict[str, Any]()
        for step, batch in enumerate(loader or ()):
            called.call("predict_batch_begin", step, logs)
            given = self._given(batch)
            outputs.append(self.predict_batch(given))
            logs = {"step": step, "batch_size": rows_of(given)}
            called.call("predict_batch_end", step, logs)
        called.call("predict_end", logs)
        columns = list(zip(*outputs, strict=True))
        return [np.vstack(column) for column in columns] if stack_outputs else columns

    def _given(self, batch: Any) -> list[Any]:
        """The inputs among the fields of a batch to predict."""
        fields = listed(batch)
        if self._input_count is not None:
            return fields[: self._input_count]
        return fields if len(fields) == 1 or self._loss is None else parted(batch, None, "test_data")[0]

    def _evaluated(self, loader: Any, called: CallbackList, limit: int | None) -> dict[str, Any]:
        called.call("eval_begin", {"steps": steps_of(loader), "metrics": self._names()})
        logs = self._pass(loader, called, "eval", 1, limit)
        called.call("eval_end", logs)
        return logs

    def _pass(self, loader: Any, called: CallbackList, mode: str, every: int, limit: int | None) -> dict[str, Any]:
        """One pass over the batches; the logs of the last one."""
        for metric in self._metrics:
            metric.reset()
        logs: dict[str, Any] = {}
        steps = steps_of(loader)
        for step, batch in enumerate(loader):
            if limit is not None and step >= limit:
                break
            called.call(f"{mode}_batch_begin", step, logs)
            inputs, labels = parted(batch, self._input_count, f"the loader of {mode} data")
            if mode == "train":
                result = self.train_batch(inputs, labels, (step + 1) % every == 0 or step + 1 == steps)
            else:
                result = self.eval_batch(inputs, labels)
            logs = {**self._logs(result), "step": step, "batch_size": rows_of(inputs)}
            called.call(f"{mode}_batch_end", step, logs)
        return logs

    def _logs(self, result: Any) -> dict[str, Any]:
        losses = result[0] if isinstance(result, tuple) else [] if self._metrics else result
        logs: dict[str, Any] = {"loss": [float(loss.reshape(-1)[0]) for loss in losses]} if losses else {}
        for metric in self._metrics:
            names, values = listed(metric.name()), listed(metric.accumulate())
            logs.update(zip(names, values))
        return logs

    def _names(self) -> list[str]:
        """What `logs` has of losses and metrics."""
        losses = ["loss"] if self._loss is not None else []
        return losses + [name for metric in self._metrics for name in listed(metric.name())]

    def _callbacks(
        self, given: Any, batch_size: int, epochs: int | None, steps: int | None, log_freq: int, verbose: int,
        save_freq: int = 1, save_dir: str | None = None, is_training: bool = False,
    ) -> CallbackList:  # fmt: skip
        """The given callbacks, and those that are there in any case."""
        callbacks: list[Callback] = checked_callbacks(given)

        def lacks(kind: type[Callback]) -> bool:
            return not any(isinstance(callback, kind) for callback in callbacks)

        if verbose and lacks(ProgBarLogger):
            callbacks.insert(0, ProgBarLogger(log_freq, verbose))
        if is_training and lacks(SavingCallback):
            callbacks.append(SavingCallback(save_freq, save_dir))
        if is_training and lacks(ScheduleCallback):
            callbacks.append(ScheduleCallback())
        for callback in callbacks:
            if isinstance(callback, EarlyStopping):
                callback.save_dir = save_dir
        params = {
            "batch_size": batch_size, "epochs": epochs, "steps": steps, "verbose": verbose, "metrics": self._names(),
        }  # fmt: skip
        return CallbackList(callbacks, self, params)

    # The layer

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The parameters of the layer."""
        return self.network.parameters(*args, **kwargs)

    def save(self, path: str | os.PathLike[str], training: bool = True) -> None:
        """Write the parameters to `<path>.pdparams` and the optimizer's states to `<path>.pdopt`.

        Args:
            training: False writes what `jit.save` does, for inference.

        Raises:
            InvalidArgument: a path that ends in a folder. OSError: it cannot be written.
        """
        target = prepared_target(path)
        if training:
            save_training(self.network, self._optimizer, target)
        else:
            jit.save(self.network, target, input_spec=None if self._inputs is None else listed(self._inputs))

    def load(self, path: str | os.PathLike[str], skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Read what `save` wrote.

        Args:
            skip_mismatch: pass over parameters of another shape, or that are missing.
            reset_optimizer: leave the optimizer's states as they are.

        Raises:
            InvalidArgument: a parameter is missing or has another shape. OSError: no such file.
        """
        load_training(self.network, None if reset_optimizer else self._optimizer, path, skip_mismatch)

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Print the layers with their outputs and parameters; returns the numbers of all and of trainable ones.

        Args:
            input_size: shape, or list of shapes, of the inputs; by default those of the specifications.

        Raises:
            InvalidArgument: neither is there.
        """
        from workbench.layers.summary import summary

        if input_size is None and self._inputs is None:
            raise InvalidArgument(
                "summary needs input_size, as the model was made without specifications of its inputs"
            )
        size = input_size if input_size is not None else [tuple(spec.shape) for spec in listed(self._inputs)]
        return summary(self.network, size, dtype)


def _tell_of_others(network: Any) -> None:
    """Processes that were started together and train layers of their own come to results of their own."""
    own = standing()
    if own.size > 1 and not isinstance(network, DataParallel):
        tell(
            f"each of the {own.size} processes trains a model of its own: rank {own.rank} has its parameters and "
            "gradients to itself\n  Model(DataParallel(network)), after init_parallel_env(), trains one together"
        )

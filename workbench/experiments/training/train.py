"""`train`: the one training loop."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, Unimplemented, described
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.parallel import ParallelExecutor
from workbench.executors.profiling.sampled_steps import EarlyStep
from workbench.experiments.first_nan import NaNGuard
from workbench.experiments.records import recorder
from workbench.experiments.run import Run
from workbench.experiments.runners import Runner, executor_of, on_cluster, on_devices, runner_of
from workbench.experiments.training.arguments import (
    check_choices,
    check_kinds,
    check_parts,
    refuse_for_layers,
    refuse_for_programs,
)
from workbench.experiments.training.layers.layer_parts import of_layer, require_recorded
from workbench.experiments.training.loops import begun
from workbench.experiments.training.loops.batches import is_one_shot, length_of, require_batches
from workbench.experiments.training.loops.initialising import initialise
from workbench.experiments.training.loops.loop import Parts, TrainingLoop
from workbench.experiments.training.loops.pipelined import PipelinedLoop
from workbench.experiments.training.loops.progress import Bar, bar_of
from workbench.experiments.training.loops.settings import file_of, own_settings, settings_of
from workbench.experiments.training.loops.validation import ProgramValidation
from workbench.experiments.training.saving.checkpoints import Restorable, read_checkpoint
from workbench.experiments.training.saving.model_checkpoint import ModelCheckpoint, left_by_the_start_before
from workbench.experiments.training.saving.savers import keep_checkpoints
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.graph.loss import labelled_loss
from workbench.layers.layer import Layer
from workbench.optimizer.optimizer import Optimizer
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.trained import ClusterExecutor
from workbench.runtime.storage.scope import Scope

DEFAULT_EPOCHS = 10
_OF_ONE_RUN = ("checkpoint", "elastic", "fresh", "paused", "settings")  # what `Run.again` does not repeat
_numbers = itertools.count(1)


def train(
    program: Program | Layer,
    loader: Iterable[Any],
    steps: int | None = None,
    epochs: int | None = None,
    fetch: Sequence[Variable | str] | Mapping[str, Any] | None = None,
    startup: Program | None = None,
    executor: Runner | ParallelExecutor | CompiledProgram | None = None,
    scope: Scope | None = None,
    on_step: Callable[[Run], None] | None = None,
    lr_step: Literal["step", "epoch", "never"] = "step",
    progress: bool | None = None,
    name: str | None = None,
    record: bool | str | os.PathLike[str] = True,
    settings: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    paused: bool = False,
    *,
    devices: int | None = None,
    cluster: Cluster | None = None,
    valid: Iterable[Any] | None = None,
    valid_every: int | None = None,
    checkpoints: str | os.PathLike[str] | ModelCheckpoint | None = None,
    stop_on_nan: bool = False,
    elastic: bool = False,
    loss: Callable[..., Any] | None = None,
    optimizer: Optimizer | None = None,
    fresh: bool = False,
) -> Run:
    """Train a program, or a layer of dynamic mode, on a background thread; returns at once.

    The steps of a layer are recorded, as `jit.capture` does it, and run by the same engine; where that is not possible,
    with a notice, op by op. The layer is in `train()` mode from then on.

    The run is recorded: see `runs()`. Where that is not possible one notice says why, and training goes on.

    Args:
        program: the main program, with its update ops; or a Layer, with `loss` and `optimizer`.
        loader: gives batches and can be iterated over once per epoch: dicts {feed: array}, or lists in the order in
            which the program declared its feeds; for a Layer what it is called with, then the label.
        steps: how many steps; epochs: how many passes over the loader. Whichever comes first ends the run; if neither
            is given, 10 epochs do (one of an iterator that cannot begin again).
        fetch: what to record of every step: Variables or names, or {label: Variable}; by default the program's loss,
            as `loss`, if it has a backward pass. An empty list records nothing. For a Layer what is recorded besides
            the loss: {label: function of outputs and label}.
        startup: gives variables without a value their first one; by default the startup program that the parameters
            were declared with. What has a value keeps it, also when the program was built anew, unless its shape,
            dtype, initializer or the type of its optimizer is another one: then it is made anew, and a line says so.
        executor: `Executor(CPUPlace())` by default; a ParallelExecutor or a CompiledProgram of
            the program trains on several devices.
        scope: where the parameters are; that executor's own, or `global_scope()` of the caller by default.
        on_step: called with the run, on the training thread, after every step; a cluster makes one step at a time then.
        lr_step: when the program's learning-rate schedulers take a step. `ReduceOnPlateau` is given the first
            variable recorded: its value in this step, or its mean over the epoch ("epoch", which it is meant for).
        progress: a progress bar always, never, or (None) in a terminal or notebook.
        name: what the bar and `runs()` call the run.
        record: False records nothing; a path is the file to record in, the user's own by default.
        settings: more settings to record, of your own: JSON types.
        checkpoint: what `Run.save` wrote: go on from there, bit for bit, up to the same `steps` or `epochs`. The
            parameters of a Layer go by their names, so it is the same one, or one made in the same place of a program
            that was started anew.
        paused: wait before the first step for `run.resume()`, or `run.advance()`.
        devices: train on so many CPU devices, without an `executor` of your own.
        cluster: train in the processes of `wb.distributed.cluster(n)`, without an `executor` of your own.
        valid: batches of validation data, which can be gone through again. The program's copy for testing is run over
            them on one device; `run.history["val_loss"]` has the means over their rows of what is fetched as `loss`.
        valid_every: evaluate them after so many steps; after every epoch, and after the last step, by default.
        checkpoints: a folder in which the best and the last checkpoint are kept, or a `ModelCheckpoint` that says more.
            Where several processes train together, or a cluster does, every save is a folder, of which each process
            writes a part; which ones are kept is decided by the values of trainer 0. All trainers give the same folder.
        stop_on_nan: end the run, failed, at the first step with a NaN or an Inf in its loss or its gradients; that
            step is not applied. Without it the run goes on, and `run.first_nan` tells which step that was.
        elastic: where `workbench launch --elastic` has started the script again, because a process was lost, go on from
            the last of `checkpoints`. MPI's processes end with one of them, so a job does not shrink where it is: it
            is started again in one process less, and has the bits of a run of so many from that checkpoint on; with
            `every_n_train_steps=1` nothing that was applied is lost. At a first start it changes nothing.
        loss: of a Layer: a function of what it returns and the label, such as `nn.CrossEntropyLoss()`.
        optimizer: of a Layer, made with its parameters.
        fresh: start over: make all values that the startup program gives anew, and begin schedules at their first step.

    Returns:
        the running Run; `run.wait()` waits for its end.

    Raises:
        InvalidType, InvalidArgument: an argument is wrong, the checkpoint is of something else. What fails later is
            raised by `run.wait()`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> data = wb.io.TensorDataset([np.ones((8, 4), np.float32)])
        >>> loader = wb.io.DataLoader(data, batch_size=4)
        >>> net, net_startup = static.default_main_program(), static.default_startup_program()
        >>> run = wb.train(net, loader, epochs=3, fetch={"loss": loss}, startup=net_startup,
        ...                valid=loader, progress=False)
        >>> len(run.wait().history["loss"]), run.validated
        (6, [2, 4, 6])
        >>> wb.disable_static()
        >>> layer = wb.nn.Linear(4, 2)
        >>> sgd = wb.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> run = wb.train(layer, loader, epochs=3, loss=wb.mean, optimizer=sgd, progress=False)
        >>> len(run.wait().history["loss"])
        6
    """
    given = {what: value for what, value in locals().items() if what not in _OF_ONE_RUN}
    check_kinds(program, startup, scope, name)
    check_choices(steps, epochs, lr_step, valid, valid_every)
    if elastic:
        checkpoint = _of_the_start_before(checkpoints) or checkpoint
    own, file = own_settings({} if settings is None else settings), file_of(record)
    if steps is None and epochs is None:
        epochs = 1 if is_one_shot(loader) else DEFAULT_EPOCHS
    total = _total(loader, steps, epochs)
    if isinstance(program, Layer):
        refuse_for_layers(fresh, startup=startup, executor=executor, cluster=cluster, scope=scope)
        parts = of_layer(program, loader, loss, optimizer, fetch, devices, valid, name or type(program).__name__)
    else:
        refuse_for_programs(loss, optimizer)
        startup = program.startup if startup is None else startup
        by = executor if cluster is None else on_cluster(executor, program, cluster, devices)
        parts = _of_program(program, loader, fetch, by, devices, scope, valid)
    check_parts(parts, lr_step)
    runner = parts.executor
    if stop_on_nan or (checkpoint, checkpoints) != (None, None):
        require_recorded(runner)
    if stop_on_nan and cluster is not None:
        raise Unimplemented("stop_on_nan in a cluster; train with devices= of this process, or look at run.history")

    loop = _loop_of(parts, lr_step, epochs, valid_every)
    run = Run(name or parts.program.name or f"run {next(_numbers)}", loop.work, total, epochs)
    executes = getattr(runner, "executor", runner)
    run.trains(None if executes is None else parts.program, parts.loader, parts.labels, executes, program, parts.scope)
    run.goes_on_by(partial(train, **given))
    keeper = keep_checkpoints(run, loop, runner, checkpoints)
    _observe(run, loop, runner, NaNGuard(run, stop_on_nan), keeper, on_step)

    restorable = None if checkpoint is None else read_checkpoint(loop, checkpoint)
    if startup is not None:
        initialise(parts.program, startup, runner, parts.scope, fresh)
    asked = {"steps": steps, "epochs": epochs, "fetch": list(parts.labels), "lr_step": lr_step}
    asked |= {"stop_on_nan": True} if stop_on_nan else {}
    recorded = None if file is None else _settings_of(parts, restorable, asked, own)
    bar = bar_of(run, progress)
    _go_on(loop, run, restorable, bar)  # last: what refuses comes before
    if bar is not None:
        run.subscribe(bar, at_rest=False)
    if recorded is not None:
        recorder.record(run, recorded, file)
    if paused:
        run.pause()
    if executor_of(executor) is None:
        begun.note(run)
    return run.start()


def _of_the_start_before(checkpoints: Any) -> Any:
    if checkpoints is None:
        raise InvalidArgument("elastic=True goes on from the last of checkpoints=, which are to be kept")
    return left_by_the_start_before(checkpoints)


def _of_program(
    program: Program, loader: Any, fetch: Any, executor: Any, devices: int | None, scope: Scope | None, valid: Any
) -> Parts:
    labels = labelled_loss(program) if fetch is None else labels_of(fetch, "train")
    require_batches(loader, "train")
    if devices is not None:
        executor, scope = on_devices(executor, program, devices, scope), None
    runner, own_scope = runner_of(executor, program, scope)
    is_compiled = executor_of(runner) is not None
    validation = None if valid is None else ProgramValidation(program, valid, labels, own_scope, is_compiled)
    return Parts(program, loader, labels, runner, own_scope, validation)


def _loop_of(parts: Parts, lr_step: str, epochs: int | None, valid_every: int | None) -> TrainingLoop:
    program, loader, labels, runner, scope, validation = parts
    kind = PipelinedLoop if isinstance(runner, ClusterExecutor) else TrainingLoop
    return kind(program, loader, labels, runner, scope, lr_step, epochs, validation, valid_every)


def _observe(run: Run, loop: TrainingLoop, runner: Any, guard: NaNGuard, keeper: Any, on_step: Any) -> None:
    loop.attend(guard, keeper)
    if (inspectable := executor_of(runner)) is not None:
        run.early = EarlyStep(inspectable.inspection)
    if on_step is not None:
        run.subscribe(on_step)


def _settings_of(parts: Parts, restorable: Restorable | None, asked: dict[str, Any], own: dict[str, Any]) -> Any:
    first_value = partial(_first_value, parts.scope, restorable)
    return settings_of(parts.program, parts.loader, parts.executor, first_value, asked, own)


def _first_value(scope: Scope, restorable: Restorable | None, name: str) -> np.ndarray | None:
    """What a variable holds at the first step, None if nothing."""
    restored = None if restorable is None else restorable.value(name)
    variable = scope.find_var(name)
    return (
        variable.tensor.array if restored is None and variable is not None and variable.tensor.initialized else restored
    )


def _go_on(loop: TrainingLoop, run: Run, restorable: Restorable | None, bar: Bar | None) -> None:
    """From a checkpoint, if there is one; if a schedule or a loader refuses its state nothing has changed."""
    if restorable is None:
        return
    try:
        restorable.apply()
    except BaseException:
        if bar is not None:
            bar.close()
        raise
    loop.go_on(run, restorable.position)


def _total(loader: Iterable[Any], steps: int | None, epochs: int | None) -> int | None:
    """Number of steps, None if the loader does not tell its length."""
    per_pass = length_of(loader)
    by_epochs = None if per_pass is None or epochs is None else per_pass * epochs
    return min((count for count in (steps, by_epochs) if count is not None), default=None)


def labels_of(fetch: Any, what: str) -> dict[str, str]:
    """{label: variable name}."""
    if isinstance(fetch, Variable | str):
        fetch = [fetch]
    if not isinstance(fetch, Mapping | Iterable):
        raise InvalidType(f"{what} takes a list or dict of Variables or names as fetch, got {described(fetch)}")
    items = fetch.items() if isinstance(fetch, Mapping) else [(None, f) for f in fetch]
    labels = {}
    for label, value in items:
        if not isinstance(value, Variable | str):
            raise InvalidType(f"{what} takes Variables or names in fetch, got {described(value)}")
        variable = value if isinstance(value, str) else value.name
        labels[label or variable] = variable
    return labels

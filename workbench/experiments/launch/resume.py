"""`resume`: a run goes on from a checkpoint, bit for bit as if it had never ended."""

from __future__ import annotations

import os
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, NotFound, described, one_of
from workbench.experiments.launch.setup import Setup
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.records.recorder import record_of
from workbench.experiments.run import Run
from workbench.experiments.tables.run_table import runs

BEGUN_BY = "begun_by"  # the setting that holds the line which began a run


def resume(
    run: Run | RecordedRun | int | str, setup: Setup | None = None, step: int | None = None, **options: Any
) -> Run:
    """Go on from a checkpoint of a run, in a run of its own.

    Args:
        run: a Run, or a recorded one, or its number, or its name, of which it is the newest.
        setup: what it was made of; a Run of this process knows it, or goes on as `train` had begun it.
        step: of the checkpoint; the last one by default.
        options: as in `Setup.start`; for a run that `train` began, as in `train`.

    Raises:
        NotFound: there is no such run or checkpoint. InvalidArgument: a setup of another program or loader,
            or none for a run of another process: the message says what to type.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> data = wb.io.TensorDataset([np.ones((8, 4), np.float32)])
        >>> loader = wb.io.DataLoader(data, batch_size=4)
        >>> net, net_startup = static.default_main_program(), static.default_startup_program()
        >>> setup = wb.experiments.setup(net, loader, startup=net_startup, fetch={"loss": loss}, steps=4)
        >>> run = setup.start(progress=False)
        >>> path = run.wait().save("half.checkpoint")
        >>> more = wb.resume(run, setup.with_(steps=8), progress=False)
        >>> more.wait().step
        8
    """
    recorded = _recorded(run, options.get("record") or None) if isinstance(run, int | str) else run
    if not isinstance(recorded, Run | RecordedRun):
        raise InvalidType(f"resume takes a Run, a row of runs() or its number, got {run!r}")
    given = getattr(recorded, "setup", None) if setup is None else setup
    if not isinstance(given, Setup | None):
        raise InvalidType(f"resume takes a Setup as setup, got {described(given)}")
    if sets := options.keys() & {"checkpoint", "settings"}:
        raise InvalidArgument(f"resume sets {one_of(sets)} itself; leave that out")
    at, path = checkpoint_of(recorded, step)
    again = getattr(recorded, "again", None) if given is None else given.start
    if again is None:
        raise InvalidArgument(_how_to_go_on(recorded, at, path))
    return again(checkpoint=path, settings=resumed_settings(recorded, at), **options)


def _recorded(run: int | str, record: Any) -> RecordedRun:
    """The run of a number or name; a path is told from a name by what lies there."""
    try:
        return runs(record)[run]
    except NotFound:
        if isinstance(run, int) or not os.path.exists(run):
            raise
        raise InvalidArgument(
            f"resume takes a run, got {run!r}, which is a path; train(program, loader, checkpoint=PATH) goes on from "
            "the file of a checkpoint, and in a notebook %train NAME LOADER --resume PATH, from the file or the folder"
        ) from None


def resumed_settings(run: Run | RecordedRun, step: int) -> dict[str, Any]:
    """What is recorded of a run that goes on from a checkpoint of another one."""
    record = record_of(run) if isinstance(run, Run) else run
    return {"resumed": None if record is None else record.number, "resumed_step": step}


def newest_with_checkpoint(name: str) -> RecordedRun:
    """The newest recorded run of that name with a checkpoint that is there.

    Raises:
        NotFound: there is none.
    """
    for run in runs():
        if run.name == name and any(os.path.exists(path) for _, path in run.checkpoints):
            return run
    raise NotFound(
        f"no run called {name!r} has a checkpoint to go on from; --checkpoints FOLDER keeps some, run.save(path) "
        "writes one"
    )


def _how_to_go_on(run: Any, step: int, path: str) -> str:
    """What to type, where the process that had the program and the data is gone."""
    line = run.settings.get(BEGUN_BY)
    if isinstance(line, str):
        what = f"run the cells that build the program and the data, then type\n  {line} --resume {run.number}"
    else:
        lengths = [f"{name}={run.settings[name]}" for name in ("steps", "epochs") if run.settings.get(name) is not None]
        named = run.settings.get("program") or "program"
        arguments = ", ".join([str(named), "loader", *lengths, f"checkpoint={path!r}"])
        what = f"build the program and the loader as before, then call\n  wb.train({arguments})"
    return (
        f"run {run.number} is of another process, which alone knew its program and its data; its checkpoint of step "
        f"{step} is there: {what}\nresume({run.number}, setup) takes the Setup, if it was started from one"
    )


def checkpoint_of(run: Run | RecordedRun, step: int | None) -> tuple[int, str]:
    """(step, path) of a checkpoint of a run, the last one if no step is given.

    Raises:
        NotFound: there is none.
    """
    matching = [(at, path) for at, path in run.checkpoints if step is None or at == step]
    if not matching:
        which = "" if step is None else f" of step {step}"
        raise NotFound(f"{run!r} has no checkpoint{which}; run.save(path) writes one")
    at, path = matching[-1]
    if not os.path.exists(path):
        raise NotFound(f"the checkpoint {path} of {run!r} is not there any more")
    return at, path

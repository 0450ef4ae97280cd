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


def resume(
    run: Run | RecordedRun | int | str, setup: Setup | None = None, step: int | None = None, **options: Any
) -> Run:
    """Go on from a checkpoint of a run, in a run of its own.

    Args:
        run: a Run, or a recorded one, or its number, or its name, of which it is the newest.
        setup: what it was made of; a Run that was started from a Setup knows it.
        step: of the checkpoint; the last one by default.
        options: as in `Setup.start`.

    Raises:
        NotFound: there is no such run or checkpoint. InvalidArgument: no setup, or one of another program or loader.

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
    recorded = runs(options.get("record") or None)[run] if isinstance(run, int | str) else run
    if not isinstance(recorded, Run | RecordedRun):
        raise InvalidType(f"resume takes a Run, a row of runs() or its number, got {run!r}")
    given = getattr(recorded, "setup", None) if setup is None else setup
    if given is None:
        raise InvalidArgument("resume needs the setup the run was made of: resume(run, setup)")
    if not isinstance(given, Setup):
        raise InvalidType(f"resume takes a Setup as setup, got {described(given)}")
    if taken := options.keys() & {"checkpoint", "settings"}:
        raise InvalidArgument(f"resume sets {one_of(taken)} itself; leave that out")
    at, path = _checkpoint(recorded, step)
    record = record_of(recorded) if isinstance(recorded, Run) else recorded
    number = None if record is None else record.number
    return given.start(checkpoint=path, settings={"resumed": number, "resumed_step": at}, **options)


def _checkpoint(run: Run | RecordedRun, step: int | None) -> tuple[int, str]:
    matching = [(at, path) for at, path in run.checkpoints if step is None or at == step]
    if not matching:
        which = "" if step is None else f" of step {step}"
        raise NotFound(f"{run!r} has no checkpoint{which}; run.save(path) writes one")
    at, path = matching[-1]
    if not os.path.exists(path):
        raise NotFound(f"the checkpoint {path} of {run!r} is not there any more")
    return at, path

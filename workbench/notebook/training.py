"""What `%train` does: find the named things in the notebook, train, wait."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from IPython.core.error import UsageError

from workbench import experiments
from workbench.errors import did_you_mean
from workbench.experiments import Run
from workbench.framework.program import Program
from workbench.framework.variable import Variable
from workbench.notebook.live import in_notebook, watch
from workbench.notebook.session import Session

PRINTED: WeakSet[Run] = WeakSet()  # of what `%train` returned: it has shown the run, so its value is one line


def train(
    session: Session,
    name: str,
    loader: str,
    steps: int | None = None,
    epochs: int | None = None,
    fetch: Sequence[str] = (),
    quiet: bool = False,
) -> Run:
    """Train the program called `name` on the batches of what is called `loader`, and wait for the end.

    Args:
        fetch: the user's names of Variables, or names inside the program; they label what the run records.
        quiet: show nothing meanwhile.

    Raises:
        UsageError: an unknown name, a number below 0.
        Exception: what made the run fail.
    """
    __tracebackhide__ = True
    program = session.program(name)
    for what, number in (("--steps", steps), ("--epochs", epochs)):
        if number is not None and number < 0:
            raise UsageError(f"{what} takes a number of at least 0, got {number}")
    if loader not in session.namespace:
        hint = did_you_mean(loader, session.loaders())
        raise UsageError(f"there is no {loader!r} to take batches from.{hint}")
    batches = session.namespace[loader]
    if not hasattr(batches, "__iter__"):
        raise UsageError(f"{loader!r} is of type {type(batches).__name__} and gives no batches")
    found = {label: _variable(session, program, label) for label in fetch}
    live = in_notebook(session.shell) and not quiet
    run = experiments.train(
        program,
        batches,
        steps,
        epochs,
        found,
        startup=session.startups.get(program),
        progress=False if quiet or live else None,
        name=name,
    )
    PRINTED.add(run)
    return watch(run) if live else run.wait()


def _variable(session: Session, program: Program, label: str) -> str:
    """The name in `program` of what the user calls `label`."""
    block = program.global_block()
    value = session.namespace.get(label)
    name = value.name if isinstance(value, Variable) else label
    if block.has_var(name):
        return name
    mine = {n: v for n, v in session.namespace.items() if isinstance(v, Variable) and block.has_var(v.name)}
    hint = did_you_mean(label, {*mine, *block.vars})
    if isinstance(value, Variable):
        raise UsageError(f"{label!r} is a variable of another program; {program.name!r} has no {name!r}.{hint}")
    raise UsageError(f"program {program.name!r} has no variable {label!r}.{hint}")

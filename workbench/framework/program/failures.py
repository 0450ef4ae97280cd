"""What a user reads when an op of a program fails while it runs, makes a NaN, or finds no value to read.

An interpreter and a compiled step say it in the same words; only one that runs on several devices tells on which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from workbench.errors import (
    EnforceNotMet,
    ExecutionError,
    InvalidArgument,
    InvalidType,
    NoMemory,
    PreconditionNotMet,
    located,
)
from workbench.framework.program.variable import Variable
from workbench.framework.site import Site
from workbench.framework.values.memory import is_refused_memory
from workbench.framework.values.spec import Spec, agree


def op_failure(
    op: str, where: str, inputs: Iterable[tuple[str, Sequence[str]]], site: Site | None, error: Exception
) -> EnforceNotMet:
    """The exception for an op that failed, or that got no memory for what it makes.

    Args:
        op: its type. where: such as " on cpu:1". inputs: slot and what is in it, as text.
    """
    kind: type[EnforceNotMet] = ExecutionError
    if isinstance(error, ValueError | IndexError):
        kind = InvalidType if isinstance(error, TypeError) else InvalidArgument
    what = f" failed{where}"
    if is_refused_memory(error):
        kind, what = NoMemory, f"{where}: no memory for its values"
    lines = [f"op {op!r}{what}: {str(error) or type(error).__name__}"]
    lines += [f"  input {slot}: {'; '.join(texts)}" for slot, texts in inputs]
    return located(kind("\n".join([*lines, f"  at {site}"])))


def not_finite(op: str, where: str, name: str, data: np.ndarray, site: Site | None) -> EnforceNotMet:
    """The exception for a value with NaN or Inf among its numbers."""
    nans, infs = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    return located(
        ExecutionError(
            f"op {op!r} made {nans} NaN and {infs} Inf among the {data.size} elements of {name!r}{where}\n"
            f"  found because FLAGS_check_nan_inf is set\n  at {site}"
        )
    )


def uninitialised(name: str, variable: Variable | None, where: str, op: str, site: Site | None) -> EnforceNotMet:
    """The exception for a variable without a value.

    Args:
        op, site: what needs it.
    """
    needed = f"\n  needed by op {op!r} at {site}"
    if variable is not None and variable.is_data:
        return located(InvalidArgument(f"feed {name!r} is missing{where}: {variable.spec}{needed}"))
    if variable is not None and variable.persistable:
        what = "parameter" if variable.is_parameter else "persistable variable"
        text = f"{what} {name!r} is not initialised{where}; run the startup program first{needed}"
        return located(PreconditionNotMet(text))
    return located(PreconditionNotMet(f"variable {name!r} has no value{where}: no op before writes it{needed}"))


def require_agreement(variable: Variable, held: Spec, where: str) -> None:
    """Refuse a value of the scope, which somebody may have set to anything, that the program does not declare.

    Raises:
        InvalidType: another dtype. InvalidArgument: another shape.
    """
    if agree(variable.spec, held):
        return
    what = "parameter" if variable.is_parameter else "variable"
    kind = InvalidArgument if held.dtype == variable.dtype else InvalidType
    raise kind(
        f"{what} {variable.name!r} in the scope{where} is not what the program declares; set or load another value, or "
        f"run the startup program\n  expected: {variable.spec}\n  got:      {held}"
    )

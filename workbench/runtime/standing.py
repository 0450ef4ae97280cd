"""Which of several processes this one is, read from the variables of whoever started it.

Whoever starts processes says so in variables of its own: Paddle's launch (and `workbench launch`), mpiexec, torchrun,
Slurm. They are asked in this order; two that disagree about rank or size are an error, because one of them was meant
for another process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from workbench.errors import InvalidArgument

LAST_STEP = 0xFFFFFFF0  # Slurm numbers the steps that srun did not start (batch, extern) from here on


STARTS = "WORKBENCH_STARTS"
"""The variable that says how often `workbench launch --elastic` has started this job before."""

LAUNCHED = "WORKBENCH_LAUNCHED"
"""The variable that names a job of `workbench launch`, the same at every start of it; no other one has that name."""


class Standing(NamedTuple):
    """A process among those it was started with.

    Attributes:
        rank, size: which one it is, and how many there are.
        local_rank, local_size: the same among those of its machine; None where nobody says.
        source: whose variables say so, in words, for messages.
    """

    rank: int
    size: int
    local_rank: int | None
    local_size: int | None
    source: str


ALONE = Standing(0, 1, 0, 1, "nobody started several processes")

# Whose variables; rank, size, local rank, local size. The first name that is set counts.
_STARTERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Paddle's variables": (
        ("PADDLE_TRAINER_ID", "PADDLE_GLOBAL_RANK"),
        ("PADDLE_TRAINERS_NUM", "PADDLE_GLOBAL_SIZE"),
        ("PADDLE_RANK_IN_NODE", "PADDLE_LOCAL_RANK"),
        ("PADDLE_LOCAL_SIZE",),
    ),
    "Open MPI": (
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    "MPICH": (("PMI_RANK",), ("PMI_SIZE",), ("MPI_LOCALRANKID",), ("MPI_LOCALNRANKS",)),
    "torchrun": (("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",)),
    "Slurm": (("SLURM_PROCID",), ("SLURM_NTASKS",), ("SLURM_LOCALID",), ("SLURM_NTASKS_PER_NODE",)),
}
MPI_STARTERS = ("Open MPI", "MPICH")


def standing(variables: Mapping[str, str] | None = None) -> Standing:
    """Which process this is.

    Args:
        variables: to read instead of those of this process.

    Raises:
        InvalidArgument: a rank without a size or the other way round, something that is no number, a rank that is not
            below the size, or two sources that disagree.

    Example:
        >>> standing({"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "4"})[:2]
        (1, 4)
    """
    told = list(_told(os.environ if variables is None else variables))
    for other in told[1:]:
        require_agreement(told[0], other)
    return told[0] if told else ALONE


def mpi_standing(variables: Mapping[str, str] | None = None) -> Standing | None:
    """What mpiexec says of this process; None if it did not start it."""
    given = os.environ if variables is None else variables
    return next((told for told in _told(given, MPI_STARTERS)), None)


def require_agreement(first: Standing, second: Standing) -> None:
    """Two sources say the same.

    Raises:
        InvalidArgument: they do not; the message has both values.
    """
    if first[:2] != second[:2]:
        raise InvalidArgument(
            "two sources disagree about which process this is\n"
            f"  {first.source}: rank {first.rank} of {first.size}\n"
            f"  {second.source}: rank {second.rank} of {second.size}\n"
            "  unset the variables that are left from another job, or start all processes in one way"
        )


def _told(variables: Mapping[str, str], sources: tuple[str, ...] = tuple(_STARTERS)) -> Iterator[Standing]:
    for source in sources:
        if source == "Slurm" and not _is_started_by_srun(variables):
            continue
        if source == "Paddle's variables" and variables.get("TRAINING_ROLE", "TRAINER") != "TRAINER":
            continue  # a parameter server counts among servers
        one = _read(variables, source)
        if one is not None:
            yield one
            if variables.get("PADDLE_PSERVERS_IP_PORT_LIST"):
                return  # mpiexec counts the servers, too


def _read(variables: Mapping[str, str], source: str) -> Standing | None:
    ranks, sizes, *local = _STARTERS[source]
    rank, size = _number(variables, ranks), _number(variables, sizes)
    if rank is None and size is None:
        return None
    if rank is None or size is None:
        given, missing = (sizes, ranks) if rank is None else (ranks, sizes)
        if source == "torchrun" or source == "Slurm":
            return None  # common names, that may mean anything
        raise InvalidArgument(f"{given[0]} is set, {missing[0]} is not; set both or neither")
    if not 0 <= rank < size:
        raise InvalidArgument(f"{ranks[0]}={rank} is not the rank of one of {sizes[0]}={size} processes")
    return Standing(rank, size, _number(variables, local[0]), _number(variables, local[1]), source)


def _number(variables: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    name = next((name for name in names if variables.get(name, "").strip()), None)
    if name is None:
        return None
    text = variables[name].strip()
    if not text.isdecimal():
        raise InvalidArgument(f"{name} must be a number of processes or a rank, got {text!r}")
    return int(text)


def _is_started_by_srun(variables: Mapping[str, str]) -> bool:
    """Slurm's variables are about this process: a batch script inherits them, and so does what mpiexec starts."""
    step = variables.get("SLURM_STEP_ID", variables.get("SLURM_STEPID", ""))
    own = step.isdecimal() and int(step) < LAST_STEP
    return own and not any(variables.get(_STARTERS[source][0][0]) for source in MPI_STARTERS)

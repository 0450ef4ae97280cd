"""Which of several processes this is, as those who start processes say it."""

import pytest

from workbench.errors import InvalidArgument
from workbench.runtime.standing import ALONE, standing

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0"}
PADDLE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1, 0, 1)),
        (PADDLE, (1, 2, None, None)),
        ({**PADDLE, "PADDLE_RANK_IN_NODE": "0", "PADDLE_LOCAL_SIZE": "1"}, (1, 2, 0, 1)),
        ({"PADDLE_GLOBAL_RANK": "5", "PADDLE_GLOBAL_SIZE": "8"}, (5, 8, None, None)),
        (OPEN_MPI, (3, 4, 1, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "3"}, (0, 3, 0, 3)),
        ({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, (2, 4, 0, 2)),
        (SLURM, (1, 2, 1, None)),
    ],
)
def test_everyone_who_starts_processes_is_understood(variables: dict[str, str], expected: tuple[object, ...]) -> None:
    assert tuple(standing(variables)[:4]) == expected


def test_agreeing_sources_are_fine() -> None:
    kubernetes = {**OPEN_MPI, "PADDLE_TRAINER_ID": "3", "PADDLE_TRAINERS_NUM": "4"}
    assert standing(kubernetes)[:2] == (3, 4) and standing(kubernetes).source == "Paddle's variables"


@pytest.mark.parametrize(
    "variables",
    [
        {**PADDLE, **OPEN_MPI},
        {**OPEN_MPI, "RANK": "3", "WORLD_SIZE": "8"},
        {**PADDLE, "RANK": "0", "WORLD_SIZE": "2"},
    ],
)
def test_contradictions_are_refused_with_both_values(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        standing(variables)
    values = [f"rank {variables[r]} of {variables[s]}" for r, s in NAMES if r in variables]
    assert len(values) == 2 and all(value in str(caught.value) for value in values)


NAMES = [
    ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("RANK", "WORLD_SIZE"),
]


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"PADDLE_TRAINER_ID": "1"}, "PADDLE_TRAINERS_NUM"),
        ({"PADDLE_TRAINERS_NUM": "2"}, "PADDLE_TRAINER_ID"),
        ({"PADDLE_TRAINER_ID": "x", "PADDLE_TRAINERS_NUM": "2"}, "'x'"),
        ({"PADDLE_TRAINER_ID": "2", "PADDLE_TRAINERS_NUM": "2"}, "PADDLE_TRAINER_ID=2"),
        ({"PADDLE_TRAINER_ID": "-1", "PADDLE_TRAINERS_NUM": "2"}, "'-1'"),
    ],
)
def test_variables_that_make_no_sense_are_named(variables: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        standing(variables)


def test_what_slurm_says_of_others_is_not_taken_for_this_process() -> None:
    batch_script = {**SLURM, "SLURM_STEP_ID": str(0xFFFFFFFB)}
    assert standing(batch_script) == ALONE
    assert standing({k: v for k, v in SLURM.items() if k != "SLURM_STEP_ID"}) == ALONE
    assert standing({**OPEN_MPI, **SLURM})[:2] == (3, 4)  # mpiexec's processes inherit the variables of its daemon
    assert standing({"RANK": "1"}) == ALONE  # a common name; without a size it means nothing


def test_trainers_beside_servers_are_counted_without_them() -> None:
    job = {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:6172,127.0.0.1:6173", "PADDLE_TRAINERS_NUM": "2"}
    trainer = {**job, **OPEN_MPI, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1"}
    assert standing(trainer)[:2] == (1, 2)
    assert standing({**job, **OPEN_MPI, "TRAINING_ROLE": "PSERVER"})[:2] == (3, 4)

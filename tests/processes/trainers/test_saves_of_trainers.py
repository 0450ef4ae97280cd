"""Runs of several trainers are saved by all of them together, again after a failure, and leave no memory behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.ranks import require_mpi, run_ranks
from tests.processes.trainer_steps import STEPS
from workbench.checkpoint.parts import read_parts
from workbench.checkpoint.tree import unflatten

pytestmark = pytest.mark.processes

_RUNS = (
    STEPS
    + """
    import threading
    folder = sys.argv[1]
    at = lambda name: os.path.join(folder, name)

    def train(steps=2, **options):
        return wb.train(
            static.default_main_program(), [feed(), feed(1)], steps=steps, executor=executor, progress=False,
            record=False, **options,
        )
"""
)


def saved(folder: Path) -> int:
    """The step of a checkpoint."""
    step: int = unflatten(read_parts(folder)[1]["run"], {})["step"]
    return step


def test_what_runs_need_for_their_checkpoints_is_used_again_by_those_after_them(tmp_path: Path) -> None:
    require_mpi()
    job = run_ranks(
        _RUNS
        + """
    counts = []
    for number in range(6):
        train(checkpoints=at(f"kept {number}")).wait()
        counts.append(mapped())
    print(counts[0] > 0 and counts[1:] == counts[:1] * 5, counts)
    two = [train(checkpoints=at(f"one of two {number}"), paused=True) for number in range(2)]
    for run in two:
        run.resume()
        run.wait()
    """,
        2,
        args=(str(tmp_path),),
    )
    assert job.code == 0 and all(output.startswith("True") for output in job.outputs), str(job)


def test_a_save_that_fails_on_one_trainer_fails_on_all_and_the_next_one_works(tmp_path: Path) -> None:
    """Before anything is written, too: the others do not wait for the one that failed."""
    require_mpi()
    job = run_ranks(
        _RUNS
        + """
    import workbench.experiments.training.saving.checkpoints as checkpoints
    snapshot, fails = checkpoints.snapshot, {}

    def failing(*given):
        if fails.pop("now", None):
            raise RuntimeError("of its own")
        return snapshot(*given)

    checkpoints.snapshot = failing

    def save(run):
        if run.finished:
            return
        try:
            fails["now"] = run.step == 2 and rank == 1
            print(run.step, os.path.basename(run.save(at("{step}"))))
        except Exception as error:
            print(run.step, type(error).__name__, error)

    train(4, on_step=save).wait()
    """,
        2,
        args=(str(tmp_path),),
    )
    assert job.code == 0, str(job)
    for output, told in zip(job.outputs, ("rank 1 failed: RuntimeError: of its own", "RuntimeError of its own")):
        one, two, three, four = output.splitlines()
        assert (one, three, four) == ("1 1", "3 3", "4 4") and two.startswith("2 ") and told in two, str(job)
    assert not (tmp_path / "2").exists() and [saved(tmp_path / str(step)) for step in (1, 3, 4)] == [1, 3, 4]


def test_a_run_of_trainers_is_saved_by_all_of_them_into_one_folder_or_refused(tmp_path: Path) -> None:
    require_mpi()
    job = run_ranks(
        _RUNS
        + """
    saved = []
    arrived, go_on = threading.Event(), threading.Event()

    def on_step(run):
        if run.step == 1 and not saved:
            run.save(at("in parts"))
            saved.append(held())
            try:
                run.save(at(f"of {rank}"))
            except InvalidArgument as error:
                print(str(error).count("step 1 in"))
        if run.step == 2:
            arrived.set()
            go_on.wait(50)

    run = train(4, on_step=on_step)
    assert arrived.wait(50)
    try:
        run.save(at("refused"))
    except PreconditionNotMet as error:
        print("on_step" in str(error))
    go_on.set()
    run.wait()
    run.save(at("last"))
    last = held()
    again = train(4, checkpoint=at("in parts"), paused=True)
    assert held() == saved[0]
    again.resume()
    again.wait()
    print(held() == last)
    """,
        2,
        args=(str(tmp_path),),
    )
    assert job.code == 0 and job.outputs == ["2\nTrue\nTrue\n"] * 2, str(job)
    assert {path.name for path in tmp_path.iterdir()} == {"in parts", "last"}
    assert (saved(tmp_path / "in parts"), saved(tmp_path / "last")) == (1, 4)
    assert len(list(tmp_path.glob("in parts/save-*/part-*.tensors"))) == 2


def test_a_run_that_has_ended_keeps_no_group_when_a_save_of_it_fails() -> None:
    require_mpi()
    job = run_ranks(
        _RUNS
        + """
    from workbench.runtime.comm.mpi.lending import lent_groups

    def lent():
        group = lent_groups(world()).borrow(30.0)
        lent_groups(world()).give_back(group)
        return group

    run = train()
    run.wait()
    first = lent()
    for name in ("cannot be written", f"of {rank}"):
        try:
            run.save(at(name))
        except (OSError, Unavailable, InvalidArgument):
            print(lent() is first)
    """,
        2,
        args=("/proc/no folder",),
    )
    assert job.code == 0 and job.outputs == ["True\n" * 2] * 2, str(job)


def test_who_saves_a_run_alone_is_told_that_all_trainers_save_it() -> None:
    """When they have not met yet, and when they choose between saves; those who come later are not lost."""
    require_mpi()
    job = run_ranks(
        """
    import numpy as np
    from mpi4py import MPI
    from workbench.errors import PeerTimeout
    from workbench.experiments.training.saving.together import TrainerWriters
    from workbench.runtime.comm.mpi.world import world

    def saves(writers):
        with writers.saving("step 1 in a"):
            print("saved")

    def alone(act):
        MPI.COMM_WORLD.Barrier()
        if world().rank == 0:
            try:
                act()
            except PeerTimeout as error:
                print(error.__notes__)
        MPI.COMM_WORLD.Barrier()

    impatient, patient = (TrainerWriters(world(30.0), seconds) for seconds in (0.0, 30.0))
    alone(lambda: saves(impatient))
    alone(lambda: impatient.choice_of_first("a", "the name"))
    saves(patient)
    patient._group.timeout = 0.0
    alone(lambda: patient.choice_of_first("a", "the name"))
    if world().rank == 1:
        patient._group.broadcast(np.zeros(1, np.int64), 0, ["the name"]).wait()
    patient._group.barrier().wait(30.0)
    """,
        2,
    )
    note = "['a run of several trainers is saved by all of them, at the same step']\n"
    assert job.code == 0 and job.outputs == [note * 2 + "saved\n" + note, "saved\n"], str(job)


def test_checkpoints_of_a_run_of_several_trainers_are_written_by_all_of_them(tmp_path: Path) -> None:
    job = run_ranks(
        STEPS
        + """
    from pathlib import Path
    folder = sys.argv[1]

    def train(steps, **more):
        batches = [feed() for number in range(3)]
        run = wb.train(
            static.default_main_program(), batches, steps=steps, executor=executor, progress=False, record=False, **more
        )
        run.wait()
        return run, held()

    kept = wb.ModelCheckpoint(folder, save_top_k=2, every_n_train_steps=1)
    run, _ = train(5, checkpoints=kept)
    world().barrier().wait()
    paths = [Path(path) for _, path in run.checkpoints]
    assert len(paths) == 3 and all(path.is_dir() for path in paths), run.checkpoints
    assert sorted(part.name for part in paths[0].glob("save-*/*")) == ["part-0.tensors", "part-1.tensors"]
    assert len(os.listdir(folder)) == 3, os.listdir(folder)
    straight = train(2)[1]
    assert train(7, checkpoint=Path(folder) / "last.checkpoint")[1] == straight
    print(straight.hex())
    """,
        2,
        args=(str(tmp_path),),
    )
    assert job.code == 0 and len(set(job.outputs)) == 1, str(job)

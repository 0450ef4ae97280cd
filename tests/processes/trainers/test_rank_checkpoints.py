"""Checkpoints of several ranks: each writes a part, any number reads them, and the one before outlives any failure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.processes.ranks import require_mpi, run_ranks
from tests.processes.trainer_steps import STEPS
from workbench.checkpoint.parts import dealt, read_parts
from workbench.checkpoint.tree import unflatten
from workbench.errors import InvalidArgument, InvalidType
from workbench.parallel.groups.checkpoint import load_state_dict, read_state_dict, save_state_dict

STATE = {"net": {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3)}, "step": 7, "rate": {"last": 0.1}}


def test_a_state_comes_back_with_its_numbers_and_names(tmp_path: Path) -> None:
    save_state_dict(STATE, tmp_path / "c")
    state = read_state_dict(tmp_path / "c")
    assert np.array_equal(state["net"]["w"], STATE["net"]["w"]) and state["net"]["b"].dtype == np.float64  # type: ignore[index]
    assert state["step"] == 7 and state["rate"] == {"last": 0.1}


def test_tensors_are_filled_in_place_and_all_or_none(tmp_path: Path) -> None:
    net, other = wb.nn.Linear(2, 3), wb.nn.Linear(2, 3)
    save_state_dict(net.state_dict(), tmp_path)
    load_state_dict(other.state_dict(), tmp_path)
    assert np.array_equal(net.weight.numpy(), other.weight.numpy())
    narrow = wb.nn.Linear(2, 4)
    before = {name: tensor.numpy() for name, tensor in narrow.state_dict().items()}
    with pytest.raises(InvalidArgument, match=r"float32 \[2, 3\] as weight, expected float32 \[2, 4\]"):
        load_state_dict(narrow.state_dict(), tmp_path)
    with pytest.raises(InvalidArgument, match="no 'scale'"):
        load_state_dict({**other.state_dict(), "scale": 1.0}, tmp_path)
    assert all(np.array_equal(tensor.numpy(), before[name]) for name, tensor in narrow.state_dict().items())


def test_what_is_no_checkpoint_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"there is no manifest\.json"):
        read_state_dict(tmp_path)
    with pytest.raises(InvalidType, match="takes a state dict"):
        save_state_dict([1], tmp_path)  # type: ignore[arg-type]
    save_state_dict(STATE, tmp_path)
    part = next(tmp_path.glob("save-*/part-0.tensors"))
    part.write_bytes(part.read_bytes()[:-3] + b"xyz")
    with pytest.raises(InvalidArgument, match=r"part-0\.tensors"):
        read_state_dict(tmp_path)


def test_a_new_save_replaces_the_old_one_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    for step in (1, 2):
        save_state_dict({"step": step, "w": np.full(3, step)}, tmp_path)
    assert read_state_dict(tmp_path)["step"] == 2 and len(list(tmp_path.glob("save-*"))) == 1


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 1000)), st.integers(1, 5))
def test_tensors_are_dealt_out_evenly(sizes: dict[str, int], ranks: int) -> None:
    owners = dealt(sizes, ranks)
    load = [sum(sizes[name] for name in sizes if owners[name] == rank) for rank in range(ranks)]
    assert owners.keys() == sizes.keys() and max(load) - min(load) <= max(sizes.values(), default=0)


WRITES = """
    import sys, numpy as np, workbench as wb
    from workbench.runtime.comm.mpi.world import world
    folder, how = sys.argv[1:3]
    group = world()
    state = {"w": wb.to_tensor(np.arange(1000.0)), "b": wb.to_tensor(np.ones(900)), "step": 1}
    wb.distributed.save_state_dict(state, folder)
    if how == "fails" and group.rank == 1:
        import workbench.parallel.groups.writers as checkpoint
        def full(*arguments): raise OSError(28, "No space left on device")
        checkpoint.write_tensors = full
    if how == "apart" and group.rank == 1:
        state["of rank 1"] = wb.to_tensor(np.ones(2000))
    if how == "killed" and group.rank == 1:
        import os, signal, workbench.parallel.groups.writers as checkpoint
        checkpoint.write_tensors = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
    try:
        wb.distributed.save_state_dict({**state, "step": 2}, folder)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.processes
@pytest.mark.parametrize(("how", "step"), [("well", 2), ("fails", 1), ("apart", 1), ("killed", 1)])
def test_two_ranks_write_and_one_reads(how: str, step: int, tmp_path: Path) -> None:
    require_mpi()
    job = run_ranks(WRITES, 2, args=(str(tmp_path), how))
    state = read_state_dict(tmp_path)
    assert state["step"] == step and np.array_equal(state["w"], np.arange(1000.0)), job
    numbers = sorted(tmp_path.glob("save-*/part-*.tensors"))
    assert {path.name for path in numbers} == {"part-0.tensors", "part-1.tensors"}
    if how == "fails":
        assert "OSError" in job.outputs[1] and "rank 1 could not write its part" in job.outputs[0], job
    if how == "apart":
        assert all("rank 1 saves another state dict than rank 0" in output for output in job.outputs), job
    assert (job.code == 0) == (how != "killed") and not job.orphans


TRAINS = (
    STEPS
    + """
    import zlib
    folder, steps, killed, moment = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    fsync, count = os.fsync, 0

    def counted(file):
        global count
        count += 1
        print(executor.inspection.steps, zlib.crc32(held()), flush=True)
        if rank == killed and count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    os.fsync = counted
    kept = wb.ModelCheckpoint(folder, save_top_k=0, every_n_train_steps=1)
    last = os.path.join(folder, "last.checkpoint")
    run = wb.train(
        static.default_main_program(), [feed(), feed(1)], steps=steps, executor=executor, progress=False, record=False,
        checkpoints=kept, checkpoint=last if os.path.exists(last) else None,
    )
    run.wait()
"""
)


@pytest.mark.processes
@pytest.mark.parametrize(("rank", "moment", "step"), [(0, 11, 2), (0, 12, 3), (1, 5, 2)])
def test_a_trainer_killed_while_it_saves_leaves_the_checkpoint_before(
    rank: int, moment: int, step: int, tmp_path: Path
) -> None:
    """Two `fsync` a file: what is written, and that it has been renamed. Another number of trainers goes on."""
    job = run_ranks(TRAINS, 2, args=(str(tmp_path), "6", str(rank), str(moment)))
    assert job.code != 0 and not job.orphans, str(job)
    document = read_parts(tmp_path / "last.checkpoint")[1]
    assert unflatten(document["run"], {})["step"] == step
    seen = dict(line.split() for line in job.outputs[rank].splitlines())
    alone = run_ranks(TRAINS + "    print(zlib.crc32(held()))", 1, args=(str(tmp_path), str(step), "-1", "0"))
    assert alone.outputs[0].split()[-1] == seen[str(step)], str(alone)
    if rank == 1:
        further = run_ranks(TRAINS, 3, args=(str(tmp_path), str(step + 2), "-1", "0"))
        ends = {output.splitlines()[-1] for output in further.outputs}
        assert further.code == 0 and len(ends) == 1 and ends.pop().startswith("2 "), str(further)
        assert len(list(tmp_path.glob("last.checkpoint/save-*/part-*"))) == 3

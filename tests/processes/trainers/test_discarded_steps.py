"""A step of trainers is applied by all or by none, whatever happens to one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.ranks import run_ranks
from tests.processes.trainer_steps import STEPS

pytestmark = pytest.mark.processes


def test_the_error_of_one_trainer_discards_the_step_on_all() -> None:
    job = run_ranks(
        STEPS
        + """
    for number in range(8):
        before, culprit = held(), {2: 0, 4: 1, 5: 2}.get(number)
        try:
            step(7 if culprit == rank else 2)
            assert culprit is None and held() != before
        except EnforceNotMet as error:
            assert culprit is not None and held() == before, error
            text = str(error)
            assert "softmax_with_cross_entropy" in text and "label 7" in text and "script.py, line" in text, text
            if rank != culprit:
                assert type(error) is PeerFailed and error.ranks == (culprit,), repr(error)
                assert f"was given up: rank {culprit} failed: InvalidArgument" in text, text
            else:
                assert type(error) is InvalidArgument
    print(executor.inspection.steps, held().hex())
    """,
        3,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("5 "), str(job)


def test_a_nan_on_one_trainer_and_an_interrupted_one_discard_the_step_on_all() -> None:
    """What fails behind the last collective is found by the vote."""
    job = run_ranks(
        STEPS
        + """
    def refuse(take):
        raise ValueError("a NaN in the loss")

    executor.inspection.guard(refuse)
    for number in range(4):
        before, given = held(), feed()
        if number == 1 and rank == 1:
            given["x"][0, 0] = np.nan
        try:
            executor.run([loss], feed=given)
            assert number != 1 and held() != before
        except (ValueError, PeerFailed) as error:
            assert number == 1 and held() == before and "NaN" in str(error), (number, error)

    # Ctrl-C while this trainer waits for another one
    before = held()
    if rank == 1:
        import threading
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            step()
            raise SystemExit("not interrupted")
        except KeyboardInterrupt:
            pass
    else:
        time.sleep(1.0)
        try:
            step()
            raise SystemExit("the others were not told")
        except PeerFailed as error:
            assert "rank 1 failed: KeyboardInterrupt" in str(error)
    assert held() == before
    step()
    print(executor.inspection.steps, held().hex())
    """,
        2,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("4 "), str(job)


def test_a_trainer_that_does_not_come_is_named_with_the_op_that_waits() -> None:
    job = run_ranks(
        STEPS.replace("executor = static", "strategy = static.ExecutionStrategy()\n    executor = static").replace(
            "build_strategy=build)", "build_strategy=build, exec_strategy=strategy)\n    strategy.timeout = 1.0"
        )
        + """
    step()
    before = held()
    try:
        if rank == 1:
            time.sleep(2.5)
        step()
        raise SystemExit("the step was applied")
    except PeerTimeout as error:
        assert rank == 0 and error.ranks == (1,), error
        text = str(error)
    except PeerFailed as error:
        assert rank == 1 and error.ranks == (0,), error
        text = str(error)
        assert "rank 0 failed: PeerTimeout" in text
    assert "all_reduce of 'fc_0.b_0@GRAD'" in text and "waiting for rank 1" in text
    assert "at op 'fused_all_reduce', built at" in text and "script.py, line" in text, text
    assert text.count("in step 2, after 1 that was applied") == 1, text
    assert held() == before
    step()
    print(executor.inspection.steps, held().hex())
    """,
        2,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("2 "), str(job)


@pytest.mark.parametrize("how", ["met", "strangers"])
def test_the_first_step_of_trainers_waits_as_long_as_any_other(how: str, tmp_path: Path) -> None:
    """Also where they have not met before; both come back, and go on together."""
    job = run_ranks(
        STEPS.replace(
            "rank, size = world().rank, world().size", "rank, size = int(os.environ['OMPI_COMM_WORLD_RANK']), 2"
        )
        .replace("executor = static", "strategy = static.ExecutionStrategy()\n    executor = static")
        .replace("build_strategy=build)", "build_strategy=build, exec_strategy=strategy)\n    strategy.timeout = 1.0")
        + """
    from pathlib import Path
    from mpi4py import MPI  # MPI itself begins on all of them together

    met = Path(sys.argv[1]) / "met"
    if sys.argv[2] == "met":
        world()
    if rank == 0:
        begun = time.monotonic()
        try:
            step()
            raise SystemExit("trained alone")
        except (PeerTimeout, Unavailable) as error:
            assert "rank 1" in str(error) and time.monotonic() - begun < 20, error
        met.touch()
    while not met.exists():
        time.sleep(0.01)
    strategy.timeout = 60.0
    step()
    print(executor.inspection.steps, held().hex())
    """,
        2,
        args=(str(tmp_path), how),
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("1 "), str(job)


@pytest.mark.parametrize("nodes", ["", "0,1"], ids=["one machine", "two machines"])
def test_a_storm_of_interrupts_leaves_all_trainers_with_the_same_number_of_steps(nodes: str) -> None:
    job = run_ranks(
        STEPS
        + """
    step()
    rng, parent = np.random.default_rng(rank), os.getpid()
    applied, until = 1, time.monotonic() + 3.0
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    stop = False
    while not stop:
        try:
            signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-5, 0.03)))
            step()
        except (KeyboardInterrupt, Aborted):  # who wanted to leave a vote that went on makes all leave the next step
            pass
        finally:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    break
                except KeyboardInterrupt:
                    pass
        flags = world().all_reduce(np.array([time.monotonic() > until, 0]).astype("int64"), op="max").wait()
        stop = bool(flags[0])
        counts = world().all_gather(np.array(executor.inspection.steps)).wait()
        assert len(set(counts.tolist())) == 1, counts
    print(executor.inspection.steps, held().hex())
    """,
        2,
        FLAGS_nodes_of_ranks=nodes,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1, str(job)

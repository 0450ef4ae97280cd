"""What becomes of the others when a process dies, ends, stops or stays away: they are told who, and nothing is left."""

from __future__ import annotations

import re

import pytest

from tests.processes.ranks import Job, is_open_mpi, require_mpi, run_ranks

pytestmark = pytest.mark.processes

_WAIT = """
    import os, signal, sys, time
    import numpy as np
    from workbench.errors import *
    from workbench.runtime.comm.mpi.world import world

    group = world()
    array = np.ones(100_000)
    for _ in range(3):
        group.all_reduce(array).wait()
    if group.rank != 1:
        begin = time.monotonic()
        try:
            group.all_reduce(array).wait(DEADLINE)
        except EnforceNotMet as error:
            said = f"{type(error).__name__} {error.ranks} {time.monotonic() - begin:.2f} {error}\\n"
            os.write(1, said.encode())  # whole: the first that raises ends the others
            raise
    else:
        FAULT
"""


_HARD = ("--with-ft", "ulfm")  # mpiexec lets the others live until they end


def job_of(fault: str, deadline: float, options: tuple[str, ...] = (), nodes: str = "") -> Job:
    script = _WAIT.replace("FAULT", fault).replace("DEADLINE", str(deadline))
    return run_ranks(script, 3, 60, options=options, FLAGS_nodes_of_ranks=nodes)


def told(job: Job, rank: int) -> tuple[str, str, float, str]:
    """What a rank said of its wait: the error's class, its ranks, seconds and message."""
    match = re.match(r"(\w+) (\([\d, ]*\)) ([\d.]+) (.*)", job.outputs[rank], re.DOTALL)
    assert match is not None, str(job)
    return match[1], match[2], float(match[3]), match[4]


@pytest.mark.parametrize("fault", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)"], ids=["killed", "ended"])
def test_a_process_that_is_gone_is_named_to_the_others_and_the_job_ends(fault: str) -> None:
    job = job_of(fault, 30.0)
    assert job.code not in (0, None) and job.seconds < 30 and not job.orphans, str(job)
    if not is_open_mpi():
        return  # nobody is left who could be told
    job = job_of(fault, 30.0, _HARD)
    assert job.code is not None and job.seconds < 30 and not job.orphans, str(job)
    for rank in (0, 2):
        kind, ranks, seconds, text = told(job, rank)
        assert (kind, ranks) == ("PeerFailed", "(1,)") and "rank 1: the process is gone" in text, str(job)
        assert seconds < 10


def test_a_process_that_is_gone_is_named_on_other_machines_too() -> None:
    require_mpi()
    if not is_open_mpi():
        pytest.skip("MPICH ends all processes as soon as one of them is gone")
    job = run_ranks(
        """
        import os, signal, time
        from pathlib import Path
        import numpy as np
        from workbench.errors import PeerFailed
        from workbench.runtime.comm.mpi.world import world

        group = world()
        group.barrier().wait()
        if group.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            group.barrier().wait(40)
        except PeerFailed as error:
            os.write(1, f"{error.ranks} {error}".encode())
        Path(f"told.{group.rank}").touch()
        while len(list(Path().glob("told.*"))) < 2:  # who ends now ends the others
            time.sleep(0.01)
        """,
        3,
        options=_HARD,
        FLAGS_nodes_of_ranks="0,0,1",
    )
    for rank in (0, 2):
        assert job.outputs[rank] == "(1,) barrier was given up: rank 1: the process is gone", str(job)


def test_an_exception_of_one_ends_the_job_with_its_traceback() -> None:
    job = job_of("raise ValueError('out of data')", 30.0)
    assert job.code not in (0, None) and job.seconds < 30 and not job.orphans, str(job)
    assert "ValueError: out of data" in job.errors[1]


@pytest.mark.parametrize(
    ("fault", "state", "deadline", "nodes"),
    [
        ("time.sleep(40)", "rank 1", 1.0, ""),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "rank 1 (stopped)", 1.0, ""),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "rank 1 (stopped)", 5.0, "0,0,1"),
    ],
    ids=["late", "stopped", "stopped, two machines"],
)
def test_a_process_that_does_not_come_is_named_at_the_deadline(
    fault: str, state: str, deadline: float, nodes: str
) -> None:
    job = job_of(fault, deadline, nodes=nodes)
    assert job.code not in (0, None) and job.seconds < 30 and not job.orphans, str(job)
    seen = 0
    for rank in (0, 2):  # the first to raise ends the job, maybe before the other one has its say
        if job.outputs[rank]:
            kind, ranks, seconds, text = told(job, rank)
            assert (kind, ranks) == ("PeerTimeout", "(1,)") and f"waiting for {state}" in text, str(job)
            assert deadline <= seconds < deadline + 5
            seen += 1
    assert seen


def test_ctrl_c_ends_a_wait_for_others_at_once() -> None:
    job = run_ranks(
        """
        import os, signal, threading, time
        import numpy as np
        from workbench.runtime.comm.mpi.world import world

        group = world()
        group.barrier().wait()
        if group.rank == 0:
            work = group.all_reduce(np.ones(3))
            for _ in range(5):
                threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                begin = time.monotonic()
                try:
                    work.wait()
                    raise SystemExit("not interrupted")
                except KeyboardInterrupt:
                    assert time.monotonic() - begin < 5
            group.send(np.ones(1), 1).wait()
            assert work.wait().tolist() == [2.0] * 3
        else:
            group.receive(np.empty(1), 0).wait()
            group.all_reduce(np.ones(3)).wait()
        print("done")
        """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_ctrl_c_at_any_moment_of_a_wait_loses_nothing() -> None:
    """Every wait is interrupted at one more moment of the code that goes on with sums and messages."""
    job = run_ranks(
        """
        import numpy as np
        from tests.stress.tripwire import Tripwire
        from workbench.runtime.comm.mpi.world import world

        group = world()
        files = ["exchange/channel.py", "exchange/messages.py"]

        def interrupted(work, moment):
            try:
                with Tripwire(moment, files):
                    work.wait()
            except KeyboardInterrupt:
                work.wait()

        for moment in range(200):
            total, message = np.full(3, group.rank + moment), np.full(3, moment)
            work = group.all_reduce(total)
            interrupted(work, moment if group.rank else None)
            other = group.send(message, 1) if group.rank == 0 else group.receive(message := np.empty(3, int), 0)
            group.barrier().wait()
            interrupted(other, moment if group.rank else None)
            assert work.result.tolist() == [2 * moment + 1] * 3 and message.tolist() == [moment] * 3, moment
        print("done")
        """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_ctrl_c_at_any_moment_of_a_send_sends_all_or_nothing() -> None:
    job = run_ranks(
        """
        import numpy as np
        from tests.stress.tripwire import Tripwire
        from workbench.errors import InvalidArgument
        from workbench.runtime.comm.mpi.world import world

        group = world()
        for moment in range(60):
            if group.rank == 0:
                sent = []
                try:
                    with Tripwire(moment, ["exchange/messages.py"]):
                        sent.append(group.send(np.zeros(2), 1))
                except KeyboardInterrupt:
                    pass
                sent.append(group.send(np.full(3, moment), 1))
                [work.wait(5) for work in sent]
                continue
            message = np.empty(3, int)
            try:
                group.receive(message, 0).wait(5)
            except InvalidArgument:
                group.receive(message, 0).wait(5)  # the first one was sent
            assert message.tolist() == [moment] * 3, moment
        print("done")
        """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_whoever_ends_early_is_named_to_those_who_still_wait_for_it() -> None:
    job = run_ranks(
        """
        import numpy as np
        from workbench.errors import PreconditionNotMet
        from workbench.runtime.comm.mpi.world import world

        group = world()
        if group.rank == 0:
            try:
                group.all_reduce(np.ones(3), names=["w@GRAD"]).wait()
            except PreconditionNotMet as error:
                print(error)
        """,
        2,
    )
    assert job.code == 0 and job.seconds < 30 and not job.orphans, str(job)
    assert "rank 1: the end of the process" in job.outputs[0] and "all_reduce of 'w@GRAD'" in job.outputs[0], str(job)

"""Two threads of a rank at one group: no sum is mixed in silence, whoever comes first."""

from __future__ import annotations

import pytest

from tests.processes.ranks import run_ranks

pytestmark = pytest.mark.processes

_BEGIN = """
import threading, time
import numpy as np
from workbench.errors import EnforceNotMet
from workbench.runtime.comm.mpi.world import world

group = world()
told, together = [], threading.Barrier(2)

def use(value, times=1, pause=0.0):
    try:
        for _ in range(times):
            time.sleep(pause)
            total = group.all_reduce(np.full(3, value)).wait(20)
            assert total[0] == value * group.size, f"mixed: {total[0]}"
    except EnforceNotMet as error:
        told.append(str(error))

def at_once(*args):
    together.wait(20)  # both are alive now
    use(*args)

def both(first, second):
    threads = [threading.Thread(target=at_once, args=args, name=name) for name, args in (("A", first), ("B", second))]
    for thread in threads:
        thread.start()
    return threads
"""
_END = """
for thread in threads:
    thread.join(30)
    assert not thread.is_alive()
for text in told:
    print(text)
"""


def test_a_thread_does_not_begin_while_another_one_waits() -> None:
    script = _BEGIN + "threads = both((1.0, 200), (10.0, 200))\n" + _END
    job = run_ranks(script, 2, 60)
    assert job.code is not None and job.seconds < 50 and not job.orphans, str(job)
    said = "\n".join(job.outputs)
    assert "two threads of a process are at collectives" in said or "in different orders" in said, str(job)
    assert "thread 'A'" in said and "thread 'B'" in said and said.count("called at") >= 2, str(job)
    assert "mixed" not in said, str(job)


def test_threads_that_cross_without_meeting_are_seen() -> None:
    script = _BEGIN + (
        "A, B = (1.0, 1, 0.0), (10.0, 1, 1.0)\n"
        "if group.rank == 1:\n"
        "    A, B = (1.0, 1, 1.0), (10.0, 1, 0.0)\n"
        "use_once = group.all_reduce(np.zeros(1)).wait(20)\n"
        "def use(value, times=1, pause=0.0):\n"
        "    try:\n"
        "        time.sleep(pause)\n"
        "        group.all_reduce(np.full(3, value)).wait(20)\n"
        "    except EnforceNotMet as error:\n"
        "        told.append(str(error))\n"
        "threads = both(A, B)\n"
    ) + _END  # fmt: skip
    job = run_ranks(script, 2, 60)
    for output in job.outputs:
        assert "threads of the processes are at collectives of one group in different orders" in output, str(job)
        assert "of thread 'A', called at" in output and "of thread 'B', called at" in output, str(job)


def test_threads_of_a_pool_have_one_collective_under_way() -> None:
    script = (
        _BEGIN
        + """
from concurrent.futures import ThreadPoolExecutor

first, second = threading.Event(), threading.Event()

def begin(value, is_first):
    try:
        if not is_first:
            first.wait(20)
        work = group.all_reduce(np.full(3, value))
        (first if is_first else second).set()
        second.wait(5)
        total = work.wait(20)
        assert total[0] == value * group.size, f"mixed: {total[0]}"
    except EnforceNotMet as error:
        second.set()
        told.append(str(error))

with ThreadPoolExecutor(2) as pool:
    list(pool.map(begin, (1.0, 10.0), (group.rank == 0, group.rank == 1)))
threads = []
"""
        + _END
    )
    job = run_ranks(script, 2, 60)
    assert job.code == 0, str(job)
    for output in job.outputs:
        assert "two threads of a process are at collectives" in output and output.count("ThreadPoolExecutor") >= 2


def test_threads_in_an_order_of_their_own_are_let_be() -> None:
    script = _BEGIN + """
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

use(1.0, 3)
with ThreadPoolExecutor(2) as pool:
    for k in range(30):
        pool.submit(use, 2.0).result(30)
        use(3.0)
with ThreadPool(2) as pool:
    busy = {}

    def hold(_):
        busy[threading.current_thread().name] = free = threading.Event()
        free.wait(20)

    holding = pool.map_async(hold, range(2), 1)
    while len(busy) < 2:
        time.sleep(0.01)
    threads = [busy[name] for name in sorted(busy)]
    threads[group.rank].set()  # another one on each rank
    pool.apply(use, (2.0,))
    threads[1 - group.rank].set()
    holding.get(20)
threads = [threading.Thread(target=use, args=(4.0, 5), name=f"of rank {group.rank}")]
threads[0].start()
threads[0].join(30)
use(5.0)
assert not told, told
print("fine")
""" + _END  # fmt: skip
    job = run_ranks(script, 2, 60)
    assert job.code == 0 and all("fine" in output for output in job.outputs), str(job)


def test_a_stopped_process_is_given_up_long_before_a_busy_one() -> None:
    script = """
import os, signal, time
import numpy as np
from workbench.config import FLAG_VALUES
from workbench.errors import PeerTimeout
from workbench.runtime.comm.mpi.world import world

assert FLAG_VALUES["FLAGS_peer_timeout"] == 600
group = world()
assert group.timeout == 600
group.barrier().wait()
if group.rank == 1:
    pid = os.getpid()
    if not os.fork():
        time.sleep(4)
        os.kill(pid, signal.SIGCONT)
        os._exit(0)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)
    group.all_reduce(np.ones(3)).wait(30)
else:
    begin, work = time.monotonic(), group.all_reduce(np.ones(3))
    try:
        work.wait()
    except PeerTimeout as error:
        assert error.ranks == (1,) and time.monotonic() - begin < 3.5, error
        print(error)
    time.sleep(4)
    work.wait(30)  # it goes on when the process does
"""
    job = run_ranks(script, 2, 60, FLAGS_stopped_peer_timeout="1")
    assert job.code == 0 and "not done within 1.0 s, waiting for rank 1 (stopped)" in job.outputs[0], str(job)

"""Process groups: every collective against NumPy, messages, groups within groups, and what is refused."""

from __future__ import annotations

import os

import pytest

from tests.processes.ranks import run_ranks

pytestmark = pytest.mark.processes

_COLLECTIVES = """
    import ml_dtypes
    import numpy as np
    from workbench.errors import InvalidArgument, InvalidType, PeerFailed, PeerTimeout, PreconditionNotMet
    from workbench.runtime.comm.mpi.world import world

    group = world()
    size, rank = group.size, group.rank
    assert group is world() and size == 3

    def values(shape, dtype, seed):
        rng = np.random.default_rng(seed)
        if np.dtype(dtype).kind in "iu":
            return [np.array(rng.integers(0, 5, shape), dtype) for _ in range(size)]
        return [np.array(rng.standard_normal(shape) * 10 ** rng.uniform(-2, 2, shape), dtype) for _ in range(size)]

    def joined(arrays, op):
        total = np.array(arrays[0])
        for array in arrays[1:]:
            total = np.asarray({"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum,
                                "min": np.minimum}[op](total, array)).astype(array.dtype)
        return np.asarray(total / size).astype(total.dtype) if op == "avg" else total

    def same(found, expected):
        assert found.dtype == expected.dtype and found.shape == expected.shape, (found, expected)
        assert found.tobytes() == expected.tobytes(), (found, expected)

    kinds = ["float16", "float32", "float64", ml_dtypes.bfloat16, "int8", "int32", "int64", "uint8"]
    for seed, dtype in enumerate(kinds):
        for shape in ((), (5,), (0, 2), (200_003,)) if dtype == "float32" else ((), (3, 4)):
            have = values(shape, dtype, seed)
            mine = have[rank]
            for op in ("sum", "prod", "max", "min", "avg"):
                if op == "avg" and np.dtype(dtype).kind in "iu":
                    continue
                same(group.all_reduce(mine, op=op).wait(), joined(have, op))
                got = group.reduce(mine, 1, op=op).wait()
                assert (got is not None) == (rank == 1)
                if rank == 1:
                    same(got, joined(have, op))
            same(group.all_gather(mine).wait(), np.stack(have))
            for root in range(size):
                into = np.array(mine)
                group.broadcast(into, root).wait()
                same(into, have[root])
            wide = values((size, *shape), dtype, 100 + seed)
            same(group.reduce_scatter(wide[rank]).wait(), joined([w[rank] for w in wide], "sum")[...])
            same(group.all_to_all(wide[rank]).wait(), np.stack([w[rank] for w in wide]))
            out = np.empty(shape, dtype)
            same(group.scatter(wide[2] if rank == 2 else None, out, 2).wait(), wide[2][rank])
    flags = np.array([rank == 1, False])
    assert group.all_gather(flags).wait().tolist() == [[False, False], [True, False], [False, False]]

    # in place, several at once, of another layout
    works = [group.all_reduce(np.full(7, rank + i, "float32")) for i in range(20)]
    assert [float(w.wait()[0]) for w in reversed(works)] == [3.0 + 3 * i for i in reversed(range(20))]
    mine = np.full((3, 4), rank, "float64").T
    same(group.all_reduce(mine).wait(), np.full((4, 3), 3.0))
    mine = np.full(300_000, rank + 1.0)
    group.all_reduce(mine, mine).wait()
    assert set(mine.tolist()) == {6.0}

    # messages
    after, before = (rank + 1) % size, (rank - 1) % size
    sent = [group.send(np.arange(n, dtype="int32") + rank, after) for n in (1, 70_000)]
    for n in (1, 70_000):
        same(group.receive(np.empty(n, "int32"), before).wait(), np.arange(n, dtype="int32") + before)
    for work in sent:
        work.wait()
        assert work.done
    sent = group.send(np.zeros((2, 3), "float32"), after, tag=4)
    try:
        group.receive(np.empty(6, "float32"), before, tag=4).wait()
        raise SystemExit("a message of another shape was received")
    except InvalidArgument as error:
        assert "float32[6]" in str(error) and "float32[2, 3]" in str(error) and f"rank {before}" in str(error)
    sent.wait()

    # groups within groups
    pair = group.subgroup([2, 0])
    assert (pair is None) == (rank == 1)
    if pair is not None:
        assert pair.ranks == (2, 0) and pair.rank == (0 if rank == 2 else 1)
        assert pair.all_gather(np.array(rank)).wait().tolist() == [2, 0]
    try:
        group.subgroup([0, 1] if rank == 0 else [0, 2])
        raise SystemExit("groups of different ranks were made")
    except (PreconditionNotMet, PeerFailed) as error:  # seen by this process, or heard from one that was quicker
        assert "rank 0: subgroup of rank 0, rank 1" in str(error) and "rank 1: subgroup of rank 0, rank 2" in str(error)
    group.reset()

    # what is refused
    for wrong, kind in (
        (lambda: group.all_reduce(np.ones(2, bool)), InvalidType),
        (lambda: group.all_reduce(np.ones(2), op="mean"), InvalidArgument),
        (lambda: group.all_reduce(np.ones(2, "int32"), op="avg"), InvalidType),
        (lambda: group.all_reduce(np.ones(2), np.ones(3)), InvalidArgument),
        (lambda: group.broadcast(np.ones(2), 3), InvalidArgument),
        (lambda: group.all_to_all(np.ones((2, 2))), InvalidArgument),
        (lambda: group.send(np.ones(2), rank), InvalidArgument),
        (lambda: group.subgroup([1, 1]), InvalidArgument),
    ):
        try:
            wrong()
            raise SystemExit("not refused")
        except kind:
            pass

    # who is late is named, and may still come
    if rank != 1:
        work = group.all_reduce(np.ones(2))
        pair.barrier().wait()  # both have come
        try:
            work.wait(0.2)
            raise SystemExit("no deadline")
        except PeerTimeout as error:
            text = str(error)
            assert error.ranks == (1,) and "rank 1" in text and "rank 0" not in text and "0.2 s" in text
        pair.barrier().wait()  # both have seen it
    for _ in range(1 if rank == 1 else 0):
        group.receive(np.empty(0), 0).wait()
        work = group.all_reduce(np.ones(2))
    if rank == 0:
        group.send(np.empty(0), 1).wait()
    assert work.wait().tolist() == [3.0, 3.0]
    group.close()
    print("done")
"""


@pytest.mark.parametrize("nodes", ["", "0,1,0"], ids=["one machine", "two machines"])
def test_collectives_and_messages_of_three_processes(nodes: str) -> None:
    job = run_ranks(_COLLECTIVES, 3, timeout=100, FLAGS_nodes_of_ranks=nodes)
    assert job.code == 0 and job.outputs == ["done\n"] * 3 and not job.orphans, str(job)


@pytest.mark.parametrize("nodes", ["", "0,1,2"], ids=["one machine", "three machines"])
def test_a_process_that_fails_is_named_to_the_others_and_all_begin_anew(nodes: str) -> None:
    job = run_ranks(
        """
        import numpy as np
        from workbench.errors import Aborted, PeerFailed
        from workbench.runtime.comm.mpi.world import world

        group = world()
        for step in range(3):
            works = [group.all_reduce(np.ones(300_000)) for _ in range(2)] if group.rank != 1 else []
            if group.rank == 1:
                group.abort("op 'one_hot': label 12 of 10", ValueError("12"))
            for use in [w.wait for w in works] + [lambda: group.barrier().wait()]:
                try:
                    use()
                    raise SystemExit("not given up")
                except Aborted as error:
                    assert "op 'one_hot': label 12 of 10" in str(error)
                    assert isinstance(error, PeerFailed) == (group.rank != 1), error
                    assert group.rank == 1 or (error.ranks == (1,) and "rank 1 failed" in str(error))
            group.reset()
            assert group.aborted is None
            assert group.all_reduce(np.full(3, step)).wait().tolist() == [3 * step] * 3
            if group.rank == 1:  # a failure that comes before others have finished is theirs, too
                for other in (0, 2):
                    group.receive(np.empty(1), other).wait()
            else:
                group.send(np.ones(1), 1).wait()
        print("done")
        """,
        3,
        FLAGS_nodes_of_ranks=nodes,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 3, str(job)


def test_a_process_that_does_not_come_to_the_beginning_is_named_and_may_come_later() -> None:
    job = run_ranks(
        """
        import time
        from workbench.errors import Unavailable
        from workbench.runtime.comm.mpi.world import world

        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            try:
                world(0.3)
            except Unavailable as error:
                assert "rank 0 of 3 waits for rank 1, rank 2, not come within 0.3 s" in str(error), error
                print("told")
        else:
            time.sleep(1.5)
        print(world(30.0).size)
        """,
        3,
    )
    assert job.outputs == ["told\n3\n", "3\n", "3\n"], str(job)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_processes_that_are_bound_to_a_processor_each_are_not_crowded() -> None:
    script = """
    import os
    from mpi4py import MPI
    from workbench.runtime.comm.mpi.world import world
    from workbench.runtime.words.window import SPINS

    if {bound}:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[MPI.COMM_WORLD.rank :][:1])
    group = world()
    print(group.processors, bool(group.channel.state[SPINS]))
    """
    every = len(os.sched_getaffinity(0)) // 2
    for bound, processors in ((True, 1), (False, every)):
        job = run_ranks(script.format(bound=bound), 2, options=("--bind-to", "none"))
        assert job.code == 0 and job.outputs == [f"{processors} True\n"] * 2, str(job)


def test_behind_a_fence_machines_see_what_each_other_has_published() -> None:
    """Told by messages that do not go the way of the words, and come before them where nobody waits."""
    job = run_ranks(
        """
        import numpy as np
        from workbench.runtime.comm.mpi.world import world
        from workbench.runtime.comm.mpi.memory.window import Word

        group = world()
        window, told = group.channel.window, np.empty(1, np.int64)
        for number in range(1, 11):
            if group.rank == 1:
                window.publish(Word.VOTE, number)
                assert window.fence(30.0)
                group.send(np.array([number]), 0).wait()
                group.receive(told, 0).wait()
                assert window.fence(30.0)
                assert window.segments[0].words[Word.VERDICT] == number
            else:
                group.receive(told, 1).wait()
                assert window.segments[1].words[Word.VOTE] == number
                window.publish(Word.VERDICT, number)
                group.send(told, 1).wait()
        group.barrier().wait()  # the last fence is answered by a rank that is still there
        print("done")
        """,
        2,
        timeout=120,
        FLAGS_nodes_of_ranks="0,1",
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_messages_that_are_longer_than_one_of_mpi_travel_in_pieces() -> None:
    job = run_ranks(
        """
        import numpy as np
        from workbench.errors import InvalidArgument
        from workbench.runtime.comm.mpi.exchange import messages
        from workbench.runtime.comm.mpi.world import world

        messages.PIECE_BYTES = 1000
        group = world()
        for number, size in enumerate((0, 1, 249, 250, 251, 2000, 7777)):
            expected = np.arange(size, dtype=np.float32)
            if group.rank == 0:
                group.send(expected, 1, number).wait()
                continue
            out = np.full(size, -1, np.float32)
            group.receive(out, 0, number).wait()
            assert np.array_equal(out, expected), size
        if group.rank == 0:  # what does not fit is taken whole, and the next one comes right
            works = [group.send(np.ones(3000), 1), group.send(np.full(5, 2.0), 1)]
            [work.wait() for work in works]
        else:
            try:
                group.receive(np.zeros(4), 0).wait()
                raise SystemExit("taken")
            except InvalidArgument as error:
                assert "float64[3000]" in str(error), error
            out = np.zeros(5)
            group.receive(out, 0).wait()
            assert set(out) == {2.0}
        print("done")
        """
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)

"""Groups that are lent: who has not met the others goes on where it was, and a group is lent again."""

from __future__ import annotations

import pytest

from tests.processes.ranks import Job, run_ranks

pytestmark = pytest.mark.processes

_TURNS = """
    from mpi4py import MPI

    from workbench.errors import Aborted, PeerTimeout, Unavailable
    from workbench.runtime.comm.mpi.lending import lent_groups
    from workbench.runtime.comm.mpi.world import world

    group = world(30.0)
    lent, rank = lent_groups(group), group.rank

    def fails_first_on(one, error):
        \"\"\"A rank borrows while the other does not; both are told by type that this is so.\"\"\"
        MPI.COMM_WORLD.Barrier()
        if rank == one:
            try:
                lent.borrow(0.0)
                raise AssertionError("lent")
            except error as raised:
                assert type(raised) is error, raised
        MPI.COMM_WORLD.Barrier()
"""


def two_ranks(turns: str) -> Job:
    return run_ranks(_TURNS + turns, 2)


def test_who_has_not_met_the_others_goes_on_borrowing_where_it_was() -> None:
    """At the question which groups lie idle, at making one, and at beginning anew with one that was used."""
    job = two_ranks(
        """
    fails_first_on(0, PeerTimeout)
    fails_first_on(1, PeerTimeout)
    one = lent.borrow(30.0)
    one.barrier().wait()
    lent.give_back(one)
    fails_first_on(0, PeerTimeout)
    fails_first_on(1, Unavailable)
    again = lent.borrow(30.0)
    again.barrier().wait()
    another = lent.borrow(30.0)
    another.barrier().wait()
    lent.give_back(again)
    print(again is one, another is not one, lent.borrow(30.0) is one)
    """
    )
    assert job.code == 0 and job.outputs == ["True True True\n"] * 2, str(job)


def test_a_group_that_could_not_begin_anew_is_lent_to_who_borrows_next() -> None:
    job = two_ranks(
        """
    one = lent.borrow(30.0)
    lent.give_back(one)
    fails_first_on(0, PeerTimeout)
    fails_first_on(1, Unavailable)
    fails_first_on(0, Unavailable)
    for _ in range(3):
        found = lent.borrow(30.0)
        found.barrier().wait()
        print(found is one)
        lent.give_back(found)
    """
    )
    assert job.code == 0 and job.outputs == ["True\n" * 3] * 2, str(job)


def test_groups_are_lent_again_when_the_world_has_begun_anew() -> None:
    job = two_ranks(
        """
    from workbench.errors import PeerFailed

    fails_first_on(0, PeerTimeout)
    fails_first_on(1, PeerTimeout)
    if rank == 0:
        group.abort("of its own")
    fails_first_on(1, PeerFailed)
    fails_first_on(0, Aborted)
    group.reset(30.0)
    lent.borrow(30.0).barrier().wait()
    print("lent")
    """
    )
    assert job.code == 0 and job.outputs == ["lent\n"] * 2, str(job)

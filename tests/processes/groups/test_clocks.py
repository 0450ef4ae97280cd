"""The clocks of processes against each other: what was added to one of them is found again."""

from __future__ import annotations

import pytest

from tests.processes.ranks import run_ranks

pytestmark = pytest.mark.processes

_MEASURED = """
    from time import perf_counter_ns
    from workbench.runtime.comm.mpi.clocks import clock_offsets
    from workbench.runtime.comm.mpi.world import world

    group = world()
    ahead = (0, 7_000_000, -3_000_000_000)[group.rank]
    offsets = clock_offsets(group, lambda: perf_counter_ns() + ahead)
    if group.rank:
        assert offsets == []
    else:  # the processes of one machine have one clock
        assert [offset.ns for offset in offsets][0] == 0 and len(offsets) == 3
        for offset, added in zip(offsets, (0, 7_000_000, -3_000_000_000)):
            assert abs(offset.ns - added) <= offset.within, (offset, added)
        assert all(0 < offset.within < 1_000_000_000 for offset in offsets[1:])
"""


def test_what_was_added_to_a_clock_is_found_to_within_what_is_said() -> None:
    ended = run_ranks(_MEASURED, 3)
    assert ended.code == 0, ended

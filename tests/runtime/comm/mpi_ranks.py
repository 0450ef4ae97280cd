"""The contract of communicators over several processes: run by pytest in each of them, see `test_mpi`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from tests.runtime.comm.contract import CommunicatorContract
from workbench.runtime.comm import Communicator
from workbench.runtime.comm.mpi.devices import MpiCommunicator
from workbench.runtime.comm.mpi.group import ProcessGroup
from workbench.runtime.comm.mpi.world import world


@cache
def first(count: int) -> ProcessGroup | None:
    """The group of the first processes."""
    return world().subgroup(range(count))


class TestMpi(CommunicatorContract):
    """Devices dealt out as evenly as can be, the first processes have one more: 2 + 2 + 1, or 1 + 1 without the third.

    Of the sizes of one process only two are tried here: a device for each, and one device more or less.
    """

    @contextmanager
    def group(self, size: int) -> Iterator[Communicator]:
        count = min(size, world().size)
        if size not in (count, 3, 4):
            pytest.skip("a size like others")
        group = first(count)
        if group is None:
            pytest.skip("this process is no member")
        yield MpiCommunicator(group, size // count + (group.rank < size % count))

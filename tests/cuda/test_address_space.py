"""Memory of a simulated device: what the host may do with it, and what is known of every byte."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.cuda.simulated.memory import AddressError, AddressSpace
from workbench.errors import InvalidArgument, NoMemory


def test_bytes_come_back_as_they_went_in() -> None:
    memory = AddressSpace(1 << 20)
    address = memory.allocate(40)
    memory.write(address, np.arange(10, dtype=np.float32))
    assert np.frombuffer(memory.read(address, 40), np.float32).tolist() == list(range(10))
    memory.write(address + 4, b"\1\2\3\4")
    assert memory.read(address + 4, 5) == b"\1\2\3\4\0"
    memory.fill(address, 7, 3)
    assert memory.read(address, 5) == b"\7\7\7\0\1"


def test_allocations_are_aligned_and_apart() -> None:
    memory = AddressSpace(1 << 20)
    spans = sorted((memory.allocate(size), size) for size in (1, 255, 256, 257, 0, 1000))
    assert all(address % 256 == 0 for address, _ in spans)
    assert all(spans[at + 1][0] - spans[at][0] - spans[at][1] >= 4096 for at in range(5))


def test_fresh_memory_is_poisoned_and_known_as_unwritten() -> None:
    memory = AddressSpace(1 << 20)
    address = memory.allocate(16)
    assert set(memory.read(address, 16)) == {0xCB} and not memory.initialised(address, 16)
    memory.view(address, 8, initialise=True)[:] = 1
    assert memory.initialised(address, 8) and not memory.initialised(address, 9)


def test_a_copy_takes_along_what_is_known() -> None:
    memory = AddressSpace(1 << 20)
    source, target = memory.allocate(16), memory.allocate(16)
    memory.write(source, b"12345678")
    memory.copy(target, source, 16)
    assert memory.read(target, 8) == b"12345678"
    assert memory.initialised(target, 8) and not memory.initialised(target, 16)


@pytest.mark.parametrize("shift", [-1, 9, 16, 4000, 1 << 30])
def test_the_host_cannot_go_outside_either(shift: int) -> None:
    memory = AddressSpace(1 << 20)
    address = memory.allocate(16)
    for call in (lambda: memory.read(address + shift, 8), lambda: memory.write(address + shift, bytes(8))):
        with pytest.raises(AddressError):
            call()


def test_freed_memory_is_gone() -> None:
    memory = AddressSpace(1 << 20)
    address = memory.allocate(16)
    memory.free(address)
    with pytest.raises(AddressError, match=r"is byte 4 of 16 bytes that were freed"):
        memory.read(address + 4, 1)
    with pytest.raises(AddressError, match="cannot be freed"):
        memory.free(address)
    with pytest.raises(AddressError, match="cannot be freed"):
        memory.free(memory.allocate(16) + 8)


def test_memory_ends_and_begins_again() -> None:
    memory = AddressSpace(1 << 20)
    with pytest.raises(NoMemory, match="1048576 bytes"):
        memory.allocate(2 << 20)
    for _ in range(100):  # ten times what there is
        address = memory.allocate(100_000)
        memory.write(address, bytes(100_000))
        memory.free(address)
    assert memory.in_use == 0
    assert not memory.initialised(memory.allocate(50_000), 50_000)


def test_small_allocations_share_what_a_large_one_has_left() -> None:
    memory = AddressSpace(1 << 20)
    memory.free(memory.allocate(900_000))
    addresses = [memory.allocate(50_000) for _ in range(10)]
    assert len(set(addresses)) == 10 and memory.in_use == 500_000
    for address in addresses:
        memory.write(address, bytes(50_000))


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        AddressSpace(1 << 20).allocate(-1)

"""Long messages in memory that two processes see: who reads what, and what stays of those that are gone."""

from __future__ import annotations

import errno
import mmap
import os
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.parallel.servers.transports import shared
from workbench.parallel.servers.transports.process import own_process
from workbench.parallel.servers.transports.shared import SharedInbox, SharedOutbox
from workbench.runtime.servers.messages import Message

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="there is no such memory here")
PLACE = struct.Struct("<4s4q")


def message(value: float, count: int = 20_000) -> Message:
    return Message("step", {}, {"a": np.full(count, value, np.float32)})


def forged(place: np.ndarray, **changed: int) -> np.ndarray:
    fields = dict(zip(("magic", "pid", "file", "key", "length"), PLACE.unpack(place.tobytes()), strict=True))
    return np.frombuffer(PLACE.pack(*{**fields, **changed}.values()), np.uint8)


def open_files() -> int:
    """How many files of messages this process has open; of other files, earlier tests may leave some to close."""
    links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum("workbench-message" in os.readlink(link) for link in links if link.is_symlink())


def test_who_does_not_know_the_key_of_a_file_reads_nothing_of_it_and_frees_nothing() -> None:
    outbox, inbox = SharedOutbox(), SharedInbox()
    place = outbox.put(message(1.0))
    chance, maps = random.Random(0), Path("/proc/self/maps")
    before, mapped = open_files(), maps.read_text().count("workbench-message")
    for _ in range(2000):
        changes: dict[str, Any] = {
            "key": chance.choice([chance.getrandbits(63), 0, -1]),
            "length": chance.choice([1, 80_000, -1, 1 << 62]),
        }
        if chance.random() < 0.5:
            changes |= {"file": chance.choice([0, 1, 2, -1, 1 << 40]), "pid": chance.choice([1, -1, 0, os.getpid()])}
        with pytest.raises(InvalidArgument):
            inbox.get(forged(place, **changes))
    # no more of them; what earlier tests have left may have gone meanwhile
    assert open_files() <= before and maps.read_text().count("workbench-message") <= mapped
    outbox.put(message(2.0))  # in another file: the first is still the receiver's
    assert (inbox.get(place).arrays["a"] == 1.0).all()


def test_what_lies_in_files_is_bounded_and_what_is_under_way_is_not_taken_back() -> None:
    outbox, inbox = SharedOutbox(), SharedInbox()
    before = open_files()
    sent = [outbox.put(message(i)) for i in range(50)]  # nobody has looked at one yet
    assert open_files() - before <= 70  # two for each
    assert [float(inbox.get(one).arrays["a"][-1]) for one in sent] == list(range(50))


def test_files_of_receivers_that_are_gone_are_taken_back_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = SharedOutbox()
    for i in range(40):
        outbox.put(message(i))
    monkeypatch.setattr(shared, "_HELD", -1.0)
    assert len(outbox.put(message(0.0))) == PLACE.size


def test_a_file_let_go_while_it_is_held_is_not_kept_by_the_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox, inbox = SharedOutbox(), SharedInbox()
    held = [inbox.get(outbox.put(message(i))).arrays["a"] for i in range(40)]
    monkeypatch.setattr(shared, "_HELD", -1.0)
    last = inbox.get(outbox.put(message(40.0)))
    assert [float(one[0]) for one in held] == list(range(40))
    del held, last
    inbox.get(outbox.put(message(1.0, 1 << 20)))  # a longer one: the others are looked through
    assert len(inbox._seen) < 5


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, True), ({"beside": False}, False), ({"host": "elsewhere"}, False), ({"pid": 1 << 40}, False)],
)
def test_who_answers_is_beside_us_if_both_say_so(fields: dict[str, object], expected: bool) -> None:
    answer = Message("joined", {"beside": True, **own_process(), **fields})
    assert shared.is_beside(answer) is expected


def test_a_receiver_keeps_no_memory_of_senders_that_have_ended() -> None:
    program = """
import sys, numpy as np
from workbench.parallel.servers.transports.shared import SharedOutbox
from workbench.runtime.servers.messages import Message
outbox = SharedOutbox()
print(outbox.put(Message("step", {}, {"a": np.ones(20_000, np.float32)})).tobytes().hex(), flush=True)
sys.stdin.read()
"""
    inbox = SharedInbox()
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
            assert sender.stdout is not None
            place = np.frombuffer(bytes.fromhex(sender.stdout.readline().decode()), np.uint8)
            assert inbox.get(place).arrays["a"].sum() == 20_000
            sender.kill()
    assert len(inbox._seen) == 1


def test_threads_that_send_at_once_have_files_of_their_own() -> None:
    outbox, inbox = SharedOutbox(), SharedInbox()
    wrong: list[object] = []

    def send(number: int) -> None:
        for i in range(150):
            got = inbox.get(outbox.put(message(1000 * number + i))).arrays["a"]
            wrong.extend(set(np.unique(got).tolist()) - {1000.0 * number + i})

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert not wrong


@pytest.mark.parametrize("failing", ["memfd_create", "ftruncate"])
def test_where_there_is_no_such_memory_a_message_travels_whole(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, failing, refuse)
    before = open_files()
    sent = SharedOutbox().put(message(3.0))
    assert len(sent) > 80_000 and (SharedInbox().get(sent).arrays["a"] == 3.0).all()
    assert open_files() <= before


def test_a_file_that_cannot_be_written_to_is_refused_in_words() -> None:
    import fcntl

    file = os.memfd_create("workbench-message", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, mmap.PAGESIZE)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, shared._seals() | fcntl.F_SEAL_WRITE)
    place = np.frombuffer(PLACE.pack(b"WBLY", os.getpid(), file, 1, 9), np.uint8)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        SharedInbox().get(place)
    os.close(file)


@pytest.mark.parametrize("seen", [True, False])
def test_memory_is_used_where_both_see_that_of_the_other(seen: bool) -> None:
    asked, told = Message("join", own_process()), Message("joined", own_process())
    if not seen:
        asked = Message("join", {**own_process(), "host": "one that the server does not see"})
    assert shared.is_beside(shared.telling(told, asked)) is seen
    assert not shared.is_beside(told)
    assert shared.telling(told, Message("step")) == told

"""Memory that two processes of one machine both see: a long message is written there, and only where it lies is sent.

The sender's file has no name and lives in memory, so nothing of it stays when both have ended, however they end. The
arrays of a message that was received show the file; when nobody holds them any more, the memory is the sender's again.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
import weakref
from random import SystemRandom
from typing import NamedTuple

import numpy as np

from workbench.errors import InvalidArgument
from workbench.parallel.servers.transports.process import is_open_to_us
from workbench.runtime.comm.mpi.memory.peers import state_of
from workbench.runtime.servers.messages import MAX_BYTES, Message, decoded, written

LONG = 1 << 15  # bytes from which on it takes longer to send them than both sides to speak of a file

_PLACE, _MAGIC = struct.Struct("<4s4q"), b"WBLY"  # what is sent: magic, process, its file, the file's key, bytes
BESIDE = "beside"  # a field: who says it sees memory of the process it says it to
_NAME = "workbench-message"
_KEPT = 32  # files that lie ready, or will
_HELD = 600.0  # seconds from which on a receiver has the memory in sight, or is gone
_BEGIN = 64  # where the message begins; before it stand whose the memory is, and the file's key
_SENDERS, _RECEIVERS = range(2)
_NOBODYS = -1  # in place of the key
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")  # so that what is looked at stays there

_is_offered = hasattr(os, "memfd_create") and hasattr(fcntl, "F_GET_SEALS")


def telling(answer: Message, asked: Message) -> Message:
    """An answer; one to a process that told of itself says whether this one sees its memory."""
    if "pid" not in asked.fields:
        return answer
    return answer._replace(fields={**answer.fields, BESIDE: _is_offered and is_open_to_us(asked)})


def is_beside(told: Message) -> bool:
    """Whether the process that answered and told of itself sees memory of this one, and this one its."""
    return _is_offered and told.fields.get(BESIDE) is True and is_open_to_us(told)


class SharedFile:
    """One file of a sender's.

    Attributes:
        owner: one number, whose the memory is. memory: uint8, where messages are written. since: when it was taken.
    """

    def __init__(self, length: int) -> None:
        self._file = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self._file).atexit = False
        os.ftruncate(self._file, _BEGIN + length)
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _seals())
        whole = np.frombuffer(mmap.mmap(self._file, _BEGIN + length), np.uint8)
        self.owner, self._key, self.memory = _owner(whole), _key(whole), whole[_BEGIN:]
        self._key[0] = SystemRandom().getrandbits(62)  # who does not know it reads nothing, wherever it says it lies
        self.since = time.monotonic()

    def take(self) -> None:
        """It is being written to, and then a receiver's."""
        self.owner[0], self.since = _RECEIVERS, time.monotonic()

    def let_go(self) -> None:
        """No message lies in it any more, whoever still looks at the last one."""
        self._key[0] = _NOBODYS

    def place(self, length: int) -> np.ndarray:
        """What tells a receiver where so many bytes lie."""
        return np.frombuffer(_PLACE.pack(_MAGIC, os.getpid(), self._file, int(self._key[0]), length), np.uint8)


class SharedOutbox:
    """The files of one sender; for any thread."""

    def __init__(self) -> None:
        self._files: list[SharedFile] = []
        self._taking = threading.Lock()

    def put(self, frame: Message) -> np.ndarray:
        """Write a message into a file, for one receiver; the bytes to send in its place, or all of it if there is none.

        Raises:
            InvalidArgument: it is too long.
        """
        taken: list[SharedFile] = []

        def take(length: int) -> np.ndarray:
            with self._taking:
                one = self._free(length)
                if one is None:
                    return np.empty(length, np.uint8)
                taken.append(one)
                one.take()
            return one.memory

        try:
            whole = written(frame, take)
        except BaseException:  # nothing is sent
            for one in taken:
                one.owner[0] = _SENDERS
            raise
        return taken[0].place(len(whole)) if taken else whole

    def _free(self, length: int) -> SharedFile | None:
        """A file that nobody looks at; None if there can be no further one."""
        free = [one for one in self._files if one.owner[0] == _SENDERS]
        large = next((one for one in free if len(one.memory) >= length), None)
        if large is not None:
            return large
        past = time.monotonic() - _HELD
        for one in free + [one for one in self._files if len(self._files) >= _KEPT and one.since < past]:
            if one in self._files:
                self._files.remove(one)
                one.let_go()
        if len(self._files) >= _KEPT:
            return None
        try:
            self._files.append(SharedFile(1 << (length - 1).bit_length()))
        except OSError:  # too many are open, or there is no memory of this kind
            return None
        return self._files[-1]


class _Seen(NamedTuple):
    """A file of another process: whose it is, and its bytes."""

    pid: int
    whole: np.ndarray

    def is_of_use(self) -> bool:
        return _key(self.whole)[0] != _NOBODYS and state_of(self.pid) != "gone"


class SharedInbox:
    """The files of others, as one receiver sees them; for any thread.

    Args:
        most: bytes that the arrays of a message may have.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most, self._seen = most, dict[int, _Seen]()
        self._opening = threading.Lock()

    def get(self, data: np.ndarray) -> Message:
        """The message that bytes are, or say where it lies.

        Raises:
            InvalidArgument: there is none.
        """
        if len(data) != _PLACE.size or bytes(data[:4]) != _MAGIC:
            return decoded(data, self._most)
        _, pid, file, key, length = _PLACE.unpack(data.data)
        whole = self._whole(pid, file, key)
        if not 0 < length <= len(whole) - _BEGIN:
            raise InvalidArgument(f"a message of {length} bytes does not lie in a file of {len(whole)}")
        shown = whole[_BEGIN : _BEGIN + length]
        weakref.finalize(shown, _owner(whole).__setitem__, 0, _SENDERS).atexit = False
        return decoded(
            shown.data, self._most
        )  # arrays made of it hold `shown`; of the array itself, they would hold `whole`

    def _whole(self, pid: int, file: int, key: int) -> np.ndarray:
        with self._opening:
            seen = self._seen.get(key)
            if seen is None:
                self._seen = {one: seen for one, seen in self._seen.items() if seen.is_of_use()}
                seen = _Seen(pid, _opened(f"/proc/{pid}/fd/{file}"))
            if key == _NOBODYS or _key(seen.whole)[0] != key:
                raise InvalidArgument(f"no message of this key lies in file {file} of process {pid}")
            self._seen[key] = seen
        return seen.whole


def _owner(whole: np.ndarray) -> np.ndarray:
    return whole[:8].view(np.int64)


def _key(whole: np.ndarray) -> np.ndarray:
    return whole[8:16].view(np.int64)


def _opened(path: str) -> np.ndarray:
    """A file of another process.

    Raises:
        InvalidArgument: it is none that messages lie in.
    """
    try:
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):  # another one is not even opened
            raise InvalidArgument(f"no message lies in {path}")
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return _mapped(file, path)
        finally:
            os.close(file)
    except OSError as error:
        raise InvalidArgument(f"a message in the memory of another process cannot be read: {error}") from None


def _mapped(file: int, path: str) -> np.ndarray:
    held = fcntl.fcntl(file, fcntl.F_GET_SEALS) & _seals()  # systems may add seals of their own
    if held != _seals() or os.fstat(file).st_size < _BEGIN:
        raise InvalidArgument(f"{path} could become shorter while it is read")
    if os.fstat(file).st_uid != os.geteuid():
        raise InvalidArgument(f"{path} is another user's, who could change it while it is read")
    return np.frombuffer(mmap.mmap(file, 0), np.uint8)


def _seals() -> int:
    return sum(getattr(fcntl, name) for name in _SEALS)

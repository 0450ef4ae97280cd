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
import weakref
from random import SystemRandom

import numpy as np

from workbench.errors import InvalidArgument
from workbench.parallel.servers.transports.process import is_open_to_us
from workbench.runtime.servers.messages import MAX_BYTES, Message, decoded, written

LONG = 1 << 15  # bytes from which on it takes longer to send them than both sides to speak of a file

_PLACE, _MAGIC = struct.Struct("<4s4q"), b"WBLY"  # what is sent: magic, process, its file, the file's key, bytes
_NAME = "workbench-message"
_KEPT = 32  # files that lie ready, or will
_BEGIN = 64  # where the message begins; before it stands whose the memory is
_SENDERS, _RECEIVERS, _NOBODYS = range(3)
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")  # so that what is looked at stays there

_is_offered = hasattr(os, "memfd_create") and hasattr(fcntl, "F_GET_SEALS")


def is_beside(told: Message) -> bool:
    """Whether the process that told of itself sees memory of this one, as this one sees its."""
    return _is_offered and is_open_to_us(told)


class SharedFile:
    """One file of a sender's.

    Attributes:
        owner: one number, whose the memory is. memory: uint8, where messages are written.
    """

    def __init__(self, length: int) -> None:
        self._file = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self._file).atexit = False
        os.ftruncate(self._file, _BEGIN + length)
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _seals())
        whole = np.frombuffer(mmap.mmap(self._file, _BEGIN + length), np.uint8)
        self.owner, self.memory = whole[:8].view(np.int64), whole[_BEGIN:]
        self._key = SystemRandom().getrandbits(53)  # no other file's, also if a process has this one's number later

    def place(self, length: int) -> np.ndarray:
        """What tells a receiver where so many bytes lie."""
        return np.frombuffer(_PLACE.pack(_MAGIC, os.getpid(), self._file, self._key, length), np.uint8)


class SharedOutbox:
    """The files of one sender."""

    def __init__(self) -> None:
        self._files: list[SharedFile] = []

    def put(self, frame: Message) -> np.ndarray:
        """Write a message into a file, for one receiver; the bytes to send in its place.

        Raises:
            InvalidArgument: it is too long.
        """
        taken: list[SharedFile] = []

        def take(length: int) -> np.ndarray:
            taken.append(self._take(length))
            return taken[0].memory

        length = len(written(frame, take))
        taken[0].owner[0] = _RECEIVERS  # only now: what interrupted the writing has taken nothing
        return taken[0].place(length)

    def _take(self, length: int) -> SharedFile:
        free = [one for one in self._files if one.owner[0] == _SENDERS]
        large = next((one for one in free if len(one.memory) >= length), None)
        if large is not None:
            return large
        for one in free:
            self._let_go(one)
        while len(self._files) >= _KEPT:  # of receivers that are gone
            self._let_go(self._files[0])
        self._files.append(SharedFile(1 << (length - 1).bit_length()))
        return self._files[-1]

    def _let_go(self, one: SharedFile) -> None:
        self._files.remove(one)
        one.owner[0] = _NOBODYS


class SharedInbox:
    """The files of others, as one receiver sees them; for any thread.

    Args:
        most: bytes that the arrays of a message may have.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most, self._seen = most, dict[int, np.ndarray]()
        self._opening = threading.Lock()

    def get(self, data: np.ndarray) -> Message:
        """The message that bytes are, or say where it lies.

        Raises:
            InvalidArgument: there is none.
        """
        if len(data) != _PLACE.size or bytes(data[:4]) != _MAGIC:
            return decoded(data, self._most)
        _, pid, file, key, length = _PLACE.unpack(data.data)
        with self._opening:
            whole = self._seen.get(key)
            if whole is None:
                self._seen = {one: seen for one, seen in self._seen.items() if _owner(seen)[0] != _NOBODYS}
                whole = self._seen[key] = _opened(f"/proc/{pid}/fd/{file}")
        if not 0 < length <= len(whole) - _BEGIN:
            raise InvalidArgument(f"a message of {length} bytes does not lie in a file of {len(whole)}")
        shown = whole[_BEGIN : _BEGIN + length]
        weakref.finalize(shown, _owner(whole).__setitem__, 0, _SENDERS).atexit = False
        return decoded(
            shown.data, self._most
        )  # arrays made of it hold `shown`; of the array itself, they would hold `whole`


def _owner(whole: np.ndarray) -> np.ndarray:
    return whole[:8].view(np.int64)


def _opened(path: str) -> np.ndarray:
    """A file of another process.

    Raises:
        InvalidArgument: it is none that messages lie in.
    """
    try:
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):  # another one is not even opened
            raise InvalidArgument(f"no message lies in {path}")
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidArgument(f"a message in the memory of another process cannot be read: {error}") from None
    try:
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) != _seals() or os.fstat(file).st_size < _BEGIN:
            raise InvalidArgument(f"{path} could become shorter while it is read")
        if os.fstat(file).st_uid != os.geteuid():
            raise InvalidArgument(f"{path} is another user's, who could change it while it is read")
        return np.frombuffer(mmap.mmap(file, 0), np.uint8)
    finally:
        os.close(file)


def _seals() -> int:
    return sum(getattr(fcntl, name) for name in _SEALS)

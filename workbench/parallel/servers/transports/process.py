"""Which process a message is of, and whether that is still there."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

from workbench.runtime.comm.mpi.memory.peers import state_of
from workbench.runtime.servers.messages import Message


def own_process() -> dict[str, int | str]:
    """Fields by which others know this process."""
    return {"pid": os.getpid(), "host": _here()}


def is_gone(told: Message) -> bool:
    """Whether the process that told of itself has ended; False where nobody can know, as on another machine."""
    pid = told.fields.get("pid")
    return type(pid) is int and pid > 0 and told.fields.get("host") == _here() and state_of(pid) == "gone"


def is_open_to_us(told: Message) -> bool:
    """Whether the process that told of itself is this user's, on this machine, and this one may look at its files."""
    pid = told.fields.get("pid")
    if type(pid) is not int or told.fields.get("host") != _here():
        return False
    try:
        return bool(os.readlink(f"/proc/{pid}/ns/pid")) and os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


@cache
def _here() -> str:
    """This machine, and where on it a process's number means the same."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
        numbers += f" {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"  # names may be used twice
    except OSError:
        numbers = ""
    return f"{socket.gethostname()} {numbers}".strip()

"""Addresses of processes, and waiting until they can be reached."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Any

from workbench.config import FLAG_VALUES
from workbench.errors import ExecutionTimeout, InvalidArgument
from workbench.framework.notice import say, tell

_PAUSE = 0.2
_TOLD_AFTER = 3.0


def require_endpoints(what: str, value: Any) -> list[str]:
    """`ip:port` addresses with commas between, or a list of them.

    Raises:
        InvalidArgument: something else, or one twice.
    """
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise InvalidArgument(f"{what} are addresses 'ip:port' with commas between, got {value!r}")
    endpoints = [one.strip() for one in given if one.strip()]
    for one in endpoints:
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidArgument(f"{what} are addresses 'ip:port', got {one!r} in {value!r}")
    if not endpoints or len(set(endpoints)) < len(endpoints):
        raise InvalidArgument(f"{what} are addresses, at least one and none twice, got {value!r}")
    return endpoints


def tell_that_nobody_listens(what: str) -> None:
    """That there is nothing to wait for."""
    tell(f"{what} has no effect: nobody listens at the address of a rank of MPI; who is late is waited for anyway")


def wait_for_ports(endpoints: Sequence[str]) -> None:
    """Wait until somebody listens at every address, as long as `FLAGS_rpc_deadline` says.

    Raises:
        ExecutionTimeout: naming those where nobody does by then.
    """
    deadline = FLAG_VALUES["FLAGS_rpc_deadline"] / 1000
    begun = time.monotonic()
    missing = [endpoint for endpoint in endpoints if not is_open(endpoint)]
    is_told = False
    while missing:
        passed = time.monotonic() - begun
        if passed > deadline:
            raise ExecutionTimeout(f"no process listens at {', '.join(missing)} after {deadline:g} s; is it started?")
        if passed > _TOLD_AFTER and not is_told:
            say(f"waiting for {', '.join(missing)}")
            is_told = True
        time.sleep(_PAUSE)
        missing = [endpoint for endpoint in missing if not is_open(endpoint)]


def is_open(endpoint: str) -> bool:
    """Whether a process listens there."""
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False

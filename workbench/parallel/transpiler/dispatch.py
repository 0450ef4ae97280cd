"""Which server has which block (T-3): dispatchers, as `DistributeTranspilerConfig.split_method` names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32


class PSDispatcher:
    """Deals variables to servers; `dispatch` of a sub-class says how.

    Args:
        pserver_endpoints: the servers, `ip:port` each.
    """

    def __init__(self, pserver_endpoints: Sequence[str]) -> None:
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The servers."""
        return self._eps

    def reset(self) -> None:
        """Begin with the first server again."""
        self._step = 0

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The server of each variable; variables have a `name`."""
        raise NotImplementedError("PSDispatcher is a base class; use RoundRobin, HashName or one of your own")


class RoundRobin(PSDispatcher):
    """One after the other, going on where the last call ended.

    Example:
        >>> dispatcher = RoundRobin(["a:1", "b:1"])
        >>> dispatcher.dispatch([None] * 3), dispatcher.dispatch([None])
        (['a:1', 'b:1', 'a:1'], ['b:1'])
    """

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The next servers in turn."""
        servers = [self._eps[(self._step + i) % len(self._eps)] for i in range(len(varlist))]
        self._step = (self._step + len(varlist)) % len(self._eps)
        return servers


class HashName(PSDispatcher):
    """By a checksum of the name.

    Paddle 1.8 takes Python's `hash`, which is another one in every process unless PYTHONHASHSEED is set, so that
    trainers and servers disagree; this one (CRC-32) is the same everywhere.
    """

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The server of each name."""
        return [self._eps[crc32(str(v.name).encode()) % len(self._eps)] for v in varlist]

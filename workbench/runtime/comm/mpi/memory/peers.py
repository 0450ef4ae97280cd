"""Whether the other processes of a group are still there, and how a wait for them goes on."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

_SPINS = 100  # polls before others get the core: some 50 us, in which a peer that is about to come comes
_YIELDS = 500  # polls that let others run; some ms, in which the work of a step is done
_SHORTEST, _LONGEST = 5e-5, 1e-3  # seconds between later polls
_give_way = getattr(os, "sched_yield", partial(time.sleep, 0))
STATES = ("", "gone", "stopped")


def state_of(pid: int) -> str:
    """`""` of a process that works or waits, else what is the matter with it: `"gone"` or `"stopped"`."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "" if _exists(pid) else "gone"
    return "gone" if state in "ZXx" else "stopped" if state in "Tt" else ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class Pause:
    """Between two polls: nothing at first, then the core is offered to others, then sleep that becomes longer.

    Args:
        crowded: there are more processes than cores, so that whoever is waited for may need this one.
    """

    def __init__(self, crowded: bool) -> None:
        self._left = _YIELDS if crowded else _SPINS + _YIELDS
        self._seconds = _SHORTEST

    @property
    def is_long(self) -> bool:
        """Whether it has come to sleep: there is time to look at more than words."""
        return self._left <= 0

    def __call__(self) -> None:
        self._left -= 1
        if self._left > _YIELDS:
            return
        if self._left > 0:
            _give_way()
            return
        time.sleep(self._seconds)
        self._seconds = min(_LONGEST, self._seconds * 1.2)

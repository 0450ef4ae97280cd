"""The ranks of communicators between GPUs of this process: one communicator for every list of devices."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from workbench.cuda.devices.gpu import GPU
from workbench.cuda.driver import RankHandle

_lock = threading.Lock()
_ranks: dict[tuple[int, ...], list[RankHandle]] = {}


def ranks_of(gpus: Sequence[GPU]) -> list[RankHandle]:
    """The ranks of a communicator of these devices, in their order; made when they are first asked for.

    Raises:
        CudaError: NCCL is not there, or refuses.
    """
    key = tuple(map(id, gpus))
    with _lock:
        ranks = _ranks.get(key)
        if ranks is None:
            ranks = _ranks[key] = gpus[0].driver.create_ranks([gpu.index for gpu in gpus])
        return ranks

"""A process that `spawn` has started: it reads the function from its pipe and calls it."""

from __future__ import annotations

import os
import sys

from workbench.errors import PreconditionNotMet
from workbench.parallel.launch.rank import run_in_job
from workbench.parallel.launch.room import Doorway

PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def call(door: Doorway | None) -> None:
    """Call the function, in the surroundings of the process that spawned this one (rule D-22)."""
    import pickle

    if door is None:
        raise PreconditionNotMet("spawn starts processes on its own machine")
    for name in PROXIES:
        os.environ.pop(name, None)
    path, task = pickle.loads(door.task())  # from the process that started this one, and nobody else
    sys.path[:] = path  # where the modules are that the function refers to
    function, arguments = pickle.loads(task)
    function(*arguments)


if __name__ == "__main__":
    run_in_job(call)

"""The first step on a machine that has no kernels yet."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import WORKLOADS, Training, training
from workbench.runtime.native.library import kernels


def without_kernels() -> Training:
    """LeNet in a process with an empty cache, which waits for its kernels when it ends, and throws them away."""
    folder = tempfile.mkdtemp()
    os.environ["WORKBENCH_CACHE_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(kernels)  # before that
    return training(WORKLOADS["lenet"], 1)


ROWS = (
    BenchRow(
        "first run",
        "LeNet where no kernels have been compiled yet",
        "a first step that does not wait for them",
        {"1 device": without_kernels},
    ),
)

"""The share of the floor that standard programs reach on one device."""

from __future__ import annotations

from functools import partial

from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import WORKLOADS, training

ROWS = tuple(
    BenchRow(
        name,
        f"{WORKLOADS[name].about}, batch {WORKLOADS[name].batch}",
        f"{share} % of the floor",
        {"1 device": partial(training, WORKLOADS[name], 1)},
        share=True,
    )
    for name, share in (("lenet", 65), ("deep", 85))
)

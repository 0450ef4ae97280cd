"""`workbench bench`: how fast steps are on this machine, beside what the machine could do."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.cli.doctor import TAPE, numerics, processor_name, usable_processors
from workbench.cli.failure import CommandError

PROFILED_STEPS = 20
MIB = 1 << 20
WIDTHS = (11, 10, 10, 9, 8, 7, 10, 9, 8)


def report(
    names: Sequence[str], devices: int, seconds: float, profile: str | None = None, growth: bool = False
) -> Iterator[str]:
    """What the machine is, and one of: steps of the workloads, time of one by kind of op, growth.

    Args:
        names: of workloads, all if empty. seconds: for each of them. profile: the one whose ops are timed.

    Raises:
        CommandError: there is no such workload.
    """
    from workbench.experiments.bench.workloads import WORKLOADS

    for name in [*names, *([profile] if profile else [])]:
        if name not in WORKLOADS:
            raise CommandError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    names = names or list(WORKLOADS)
    yield from header(devices)
    yield ""
    if profile:
        yield from profiled(profile, devices)
    elif growth:
        yield from growths(names, devices)
    else:
        yield from rooflines(names, devices, seconds)


def table(names: Sequence[str], interpreters: Mapping[str, str | None], rounds: int, seconds: float) -> Iterator[str]:
    """Programs as people bring them, beside the libraries that are installed; a row is shown when it is measured.

    Args:
        names: of rows, all if empty. interpreters: by library, a Python that has it; None looks in this one.

    Raises:
        CommandError: there is no such row.
    """
    from workbench.experiments.bench.row import all_rows
    from workbench.experiments.bench.table import measure_row, pythons

    rows = all_rows()
    for name in names:
        if name not in rows:
            raise CommandError(f"no row {name!r}; there are {', '.join(rows)}")
    yield from header(1)
    chosen = pythons(interpreters)
    missing = [library for library in interpreters if library not in chosen]
    yield f"beside {', '.join(chosen) or 'nobody'}" + (f"; not installed: {', '.join(missing)}" if missing else "")
    yield f"times  a step of the row's first line; medians of {rounds} rounds, in which all take turns"
    yield "floor  of all threads, each at work all the time; of one: of what a single thread takes at least"
    for name in names or rows:
        yield ""
        yield f"{name}: {rows[name].about}; wanted: {rows[name].wanted}"
        heads = f"{'median ms':>12}{'times':>8}{'first s':>9}{'growth MiB':>12}{'of floor':>10}{'of one':>8}"
        yield f"  {'':<12}{heads}   loss"
        for line in measure_row(rows[name], chosen, rounds, seconds):
            yield f"  {line.name:<12}{line_text(line)}"


def line_text(line: Any) -> str:
    if line.failure:
        return f"failed: {line.failure}"
    last = line.runs[-1]
    share, of_one = ("" if x is None else f"{x:.0%}" for x in (line.share, line.share_of_one))
    return (
        f"{line.median * 1e3:>12,.3f}{line.times:>8.2f}{line.first:>9.2f}{line.growth / MIB:>12,.0f}"
        f"{share:>10}{of_one:>8}   {last.losses[0]:.4f} -> {last.losses[-1]:.4f}"
    )


def header(devices: int) -> Iterator[str]:
    """What the figures depend on."""
    from workbench.config import get_flag
    from workbench.runtime.native.library import kernels, why_not

    lowering = "compiled kernels" if kernels() else f"NumPy calls: {why_not() if get_flag(TAPE) else f'{TAPE} is off'}"
    yield f"{processor_name()}; {devices} CPU devices on {usable_processors()} of {os.cpu_count()} processors"
    for label, text in numerics():
        yield f"{label:<6} {text}"
    yield f"steps  run in {lowering}"


def rooflines(names: Sequence[str], devices: int, seconds: float) -> Iterator[str]:
    """Steps of the workloads, each measured before its line is shown."""
    from workbench.experiments.bench.machine import SQUARE
    from workbench.experiments.bench.roofline import roofline

    heads = ("median ms", "best ms", "MFLOP", "GFLOP/s", "MiB", "GB/s", "floor ms", "reached", "of one")
    yield f"{'workload':<9}{''.join(head.rjust(width) for head, width in zip(heads, WIDTHS, strict=True))}  rows"
    threads = 1
    for name in names:
        r = roofline(name, devices, seconds)
        cells = (
            f"{r.median * 1e3:.4f}", f"{r.best * 1e3:.4f}", f"{r.work.flops / 1e6:,.2f}", f"{r.gemm / 1e9:,.1f}",
            f"{r.work.nbytes / MIB:.2f}", f"{r.copy / 1e9:.1f}", f"{r.floor * 1e3:.4f}", f"{r.share:.1%}",
            f"{r.share_of_one:.1%}",
        )  # fmt: skip
        numbers = "".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True))
        yield f"{name:<9}{numbers}  {lowerings(r.native, r.by_numpy)}"
        threads = r.threads
    yield ""
    yield f"floor = MFLOP at GFLOP/s + MiB at GB/s, both with {threads} threads at work; reached = floor / median"
    yield "  of one   the same with one thread at work, as a chain of small nodes has it; more where threads share them"
    yield f"  GFLOP/s  float32 products of {SQUARE} x {SQUARE} matrices by NumPy's BLAS"
    yield "  GB/s     read and written by copies about as large as a thread's part of the MiB"
    yield "  MFLOP    of the step's products and convolutions"
    yield "  MiB      feed and fetch; every device's gradients, one copy of parameters and state, each read and written"


def lowerings(native: int, by_numpy: Counter[str]) -> str:
    """`30 native, 2 by NumPy (pool2d 2)`."""
    text = f"{native} native, {by_numpy.total()} by NumPy"
    kinds = [f"{kind} {count}" for kind, count in by_numpy.most_common(3)]
    more = ["…"] if len(by_numpy) > len(kinds) else []
    return f"{text} ({', '.join(kinds + more)})" if native and kinds else text


def profiled(name: str, devices: int) -> Iterator[str]:
    """Where the time of a workload's steps goes, by kind of op; ops that run as one row are one kind."""
    from workbench.executors.profiling.profile import Profile
    from workbench.experiments.bench.workloads import WORKLOADS, training

    workload = training(WORKLOADS[name], devices)
    for _ in range(PROFILED_STEPS):
        workload.step()
    with Profile() as profile:
        for _ in range(PROFILED_STEPS):
            workload.step()
    lines = [(line.total, line.calls, line.name) for line in profile.op_types()]
    lines += [(traffic.total, traffic.calls, traffic.kind) for traffic in profile.collectives()]
    whole = sum(total for total, _, _ in lines)
    yield f"{'us a step':>11}{'share':>8}{'calls':>7}   {name}, means of {PROFILED_STEPS} steps, all threads together"
    for total, calls, kind in sorted(lines, reverse=True):
        yield f"{total / PROFILED_STEPS * 1e6:>11.1f}{total / whole:>8.1%}{calls // PROFILED_STEPS:>7}   {kind}"
    yield ""
    for thread in profile.threads():
        busy, idle = (seconds / PROFILED_STEPS * 1e6 for seconds in (thread.busy, thread.idle))
        yield f"{busy:>11.1f}  of {busy + idle:.1f} us a step thread {thread.thread} was at work"


def growths(names: Sequence[str], devices: int) -> Iterator[str]:
    """Steps by number of devices and of ops; memory by workload."""
    from workbench.experiments.bench.growth import by_devices, by_ops
    from workbench.experiments.bench.memory import peaks

    yield f"{'devices':>8}{'threads':>9}{'step us':>10}{'us a device':>13}   tiny, 16 samples a device"
    for d in by_devices():
        yield f"{d.devices:>8}{d.threads:>9}{d.step * 1e6:>10.1f}{d.per_device * 1e6:>13.2f}"
    yield ""
    yield f"{'ops':>8}{'first s':>9}{'step ms':>10}{'us an op':>13}   a chain on 16 floats, 1 device"
    for o in by_ops():
        yield f"{o.ops:>8,}{o.first:>9.2f}{o.step * 1e3:>10.3f}{o.per_op * 1e6:>13.3f}"
    yield ""
    yield f"{'workload':<9}{'import MiB':>11}{'peak MiB':>10}{'growth MiB':>12}   {devices} devices"
    for name in names:
        before, after = peaks(name, devices)
        yield f"{name:<9}{before / MIB:>11.1f}{after / MIB:>10.1f}{(after - before) / MIB:>12.1f}"

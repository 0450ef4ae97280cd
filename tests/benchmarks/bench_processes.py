"""Several processes on this machine: sums of arrays, and the standard programs over trainers.

    python -m tests.benchmarks.bench_processes [--ranks N] [--seconds S] [--torch PYTHON]

Prints, for arrays of float32 of several sizes, the time of an all-reduce over the ranks, in place: workbench's, that of
MPI itself, and with `--torch` that of gloo; and how many times as long a copy of the array takes (all ranks copying at
once). Then, of each of the five standard programs, steps per second of as many devices in one process, of as many
trainers with one device each, and with `--torch` of DistributedDataParallel over gloo, and what the vote on a step
costs. With more than 2 ranks it also prints how steps per second grow from one trainer to so many, each with as many
rows as the others, as measured here and on paper. Times are the best of many: the machine is shared. Measured in turns,
in one run; compare ratios only.

On paper a step of R trainers takes what it takes one, and the sum of the gradients: a copy into the window and R reads
and a write, which come to 1 + (R + 1) / 2 copies of all gradients; and R / C times as long where they share C cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

from tests.benchmarks.peer import OTHERS, PeerError, answer, measure
from tests.processes.ranks import ROOT, environment, run_ranks
from workbench.runtime.devices import processors

SIZES = (1 << 10, 1 << 20, 25 << 20, 100 << 20)  # bytes
_GROWING = ("mlp", "deep")
_DDP = next(peer for peer in OTHERS if peer.name == "PyTorch DDP")
_GLOO = """
import json, os, sys, time, torch
from torch import distributed, multiprocessing
def one(rank, meeting, ranks, sizes, seconds):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    found = {}
    for size in sizes:
        array, best, count = torch.ones(size // 4), 1e9, 0
        for _ in range(max(5, min(3000, int(seconds * 2e9 / (size + 200_000))))):
            distributed.barrier()
            begin = time.perf_counter()
            distributed.all_reduce(array)
            best = min(best, time.perf_counter() - begin)
        found[size] = best
    if rank == 0:
        print(json.dumps(found), flush=True)
    distributed.barrier()
    os._exit(0)
if __name__ == "__main__":
    meeting, ranks, sizes, seconds = json.loads(sys.argv[1])
    multiprocessing.spawn(one, (meeting, ranks, sizes, seconds), ranks)
"""
_ON_RANKS = "from tests.benchmarks.bench_processes import {0}; {0}(*__import__('sys').argv[1:])"


def best_of(call: Callable[[], object], meet: Callable[[], object], count: int) -> float:
    """Seconds of the quickest of so many calls that all ranks begin together."""
    times = []
    for _ in range(count):
        meet()
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return min(times)


def sums_on_rank(seconds: str) -> None:
    """Of one rank: times of sums and copies by size, as JSON from rank 0."""
    from mpi4py import MPI

    from workbench.runtime.comm.mpi.devices import MpiCommunicator
    from workbench.runtime.comm.mpi.world import world

    group, told = world(), {}
    comm = MpiCommunicator(group, 1)
    for size in SIZES:
        array, copy = np.full(size // 4, 0.0, np.float32), np.ones(size // 4, np.float32)
        count = max(5, min(3000, int(float(seconds) * 2e9 / (size + 200_000))))
        sums = comm.all_reduce([array], [array])

        def meet() -> None:
            group.barrier().wait()

        told[size] = [
            best_of(lambda: sums.run(60.0), meet, count),  # noqa: B023
            best_of(lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array), meet, count),  # noqa: B023
            best_of(lambda: np.copyto(copy, array), meet, count),  # noqa: B023
        ]
    if group.rank == 0:
        print(json.dumps(told))


def steps_on_rank(name: str, divisor: str, seconds: str) -> None:
    """Of one trainer with one device: steps per second, seconds of a vote and of a copy of all gradients, as JSON.

    Args:
        divisor: how many times as many rows the workload has.
    """
    from workbench.experiments.bench.workloads import WORKLOADS, cpu_devices, training
    from workbench.runtime.comm.mpi.world import world
    from workbench.static import BuildStrategy, ParallelExecutor

    group, workload = world(), WORKLOADS[name]
    model = training(workload._replace(batch=workload.batch // int(divisor)), 1)
    build = BuildStrategy()
    build.num_trainers, build.trainer_id = group.size, group.rank
    with cpu_devices(1):
        executor = ParallelExecutor(
            False, model.loss, model.executor.program, build_strategy=build, scope=model.executor.scope
        )

    def lap(count: int) -> float:
        group.barrier().wait()
        begin = perf_counter()
        for _ in range(count):
            executor.run([model.loss], feed=model.feed)
        return perf_counter() - begin

    lap(20)
    took = np.array(lap(20))
    group.broadcast(took, 0).wait()
    count = max(5, int(float(seconds) / 5 * 20 / float(took)))
    rate = count / min(lap(count) for _ in range(5))
    trainers = executor.inspection.trainers

    def vote() -> None:
        if trainers is not None:
            trainers.prepare_vote()
            trainers.agree()

    cost = best_of(vote, lambda: None, 500)
    count = sum(int(np.prod(parameter.shape)) for parameter in model.executor.program.all_parameters())
    gradients, copy = np.ones(count, np.float32), np.ones(count, np.float32)
    copying = best_of(lambda: np.copyto(copy, gradients), lambda: group.barrier().wait(), 50)
    if group.rank == 0:
        print(json.dumps([rate, cost, copying]))


def steps_alone(name: str, devices: str, seconds: str) -> None:
    """Of one process: steps per second, as JSON."""
    from workbench.experiments.bench.workloads import WORKLOADS, training

    model = training(WORKLOADS[name], int(devices))

    def lap(count: int) -> float:
        begin = perf_counter()
        for _ in range(count):
            model.step()
        return perf_counter() - begin

    lap(20)
    count = max(5, int(float(seconds) / 5 * 20 / lap(20)))
    print(json.dumps(count / min(lap(count) for _ in range(5))))


def on_ranks(function: str, ranks: int, seconds: float, *args: str) -> list | dict:
    """What rank 0 prints."""
    job = run_ranks(_ON_RANKS.format(function), ranks, 60 + 40 * seconds, args=(*args, str(seconds)))
    if job.code != 0:
        raise SystemExit(str(job))
    return json.loads(job.outputs[0])


def alone(name: str, devices: int, seconds: float) -> float:
    script = _ON_RANKS.format("steps_alone")
    command = [sys.executable, "-c", script, name, str(devices), str(seconds)]
    return float(json.loads(answer(command, environment(PYTHONPATH=str(ROOT)), 60 + 20 * seconds)))


def gloo(python: str, ranks: int, seconds: float) -> dict[str, float]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = f"{folder}/gloo.py"
        with open(path, "w") as file:
            file.write(_GLOO)
        given = json.dumps([f"file://{folder}/meeting", ranks, SIZES, seconds])
        return json.loads(answer([python, path, given], environment(), 120 + 40 * seconds))


def print_sums(ranks: int, seconds: float, torch: str | None) -> None:
    measured = on_ranks("sums_on_rank", ranks, seconds)
    other = gloo(torch, ranks, seconds) if torch else {}
    print(f"all-reduce over {ranks} ranks, best time in us; in brackets how many copies of the array that is")
    for size in SIZES:
        ours, mpi, copy = measured[str(size)]
        line = f"  {size:>11,} bytes  workbench {ours * 1e6:9.1f} ({ours / copy:4.1f})  MPI {mpi * 1e6:9.1f}"
        if str(size) in other:
            line += f"  gloo {other[str(size)] * 1e6:9.1f} = {other[str(size)] / ours:.1f}x"
        print(line, flush=True)


def print_steps(ranks: int, seconds: float, torch: str | None) -> None:
    from workbench.experiments.bench.workloads import WORKLOADS

    print(f"steps per second, {ranks} devices in one process and {ranks} trainers of one device each")
    for name in WORKLOADS:
        one = alone(name, ranks, seconds)
        many, vote, _ = on_ranks("steps_on_rank", ranks, seconds, name, str(ranks))
        line = f"  {name:8} {one:9.1f}  {many:9.1f} = {many / one:.2f}x  (vote {vote * 1e6:.1f} us)"
        if torch and ranks == 2:
            try:
                line += f"  DDP = {many / measure(_DDP, torch, name, seconds).rate:.1f}x"
            except PeerError as error:
                line += f"  DDP: {error}"
        print(line, flush=True)


def print_growth(ranks: int, seconds: float) -> None:
    cores = processors()
    print(f"growth: steps per second of trainers with as many rows each, measured on {cores} cores, and on paper")
    for name in _GROWING:
        one, _, copying = on_ranks("steps_on_rank", 1, seconds, name, "2")
        print(f"  {name:8} 1 trainer   {one:9.1f}", flush=True)
        for count in [2**k for k in range(1, ranks.bit_length()) if 2**k < ranks] + [ranks]:
            rate, _, _ = on_ranks("steps_on_rank", count, seconds, name, "2")
            apart = 1 / (1 / one + copying * (1 + (count + 1) / 2))
            here = apart * min(1.0, cores / count)
            line = f"  {name:8} {count} trainers  {rate:9.1f}  on paper {here:9.1f}, with a core each {apart:9.1f}"
            print(f"{line} = {count * apart / one:.1f}x the rows of one", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--torch", help="a Python that has PyTorch")
    asked = parser.parse_args()
    print_sums(asked.ranks, asked.seconds, asked.torch)
    print_steps(asked.ranks, asked.seconds, asked.torch)
    if asked.ranks > 2:
        print_growth(asked.ranks, asked.seconds)


if __name__ == "__main__":
    main()

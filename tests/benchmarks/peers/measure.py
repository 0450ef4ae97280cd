"""What the peers share: what a workload starts from, and how its steps are measured.

It runs on Python 3.7 too, and needs NumPy only. Each peer is a program, `python PEER WORKLOAD DEVICES SECONDS`, that
ends by printing a line of JSON:

    version     of its library
    rate        steps per second; every step is fed from NumPy arrays and brings its loss back
    first_step  seconds from the import to the end of the first step
    growth      bytes by which the peak memory of the process grew since the import
    losses      of the first step, of the last one of the warm-up, and of the very last one
"""

import json
import math
import sys
from time import perf_counter

import numpy as np

WARM_UP = 20  # steps
SHAPES = {"tiny": (32, 64), "mlp": (128, 784), "deep": (64, 64), "lenet": (64, 1, 28, 28), "encoder": (16, 64, 128)}
WIDTHS = {"tiny": [64, 32, 10], "mlp": [784, 512, 256, 10], "deep": [64] * 101 + [10], "lenet": [400, 120, 84, 10]}
FILTERS = [(6, 1, 5, 5), (16, 6, 5, 5)]
ENCODER_LAYER = [(128, 128)] * 4 + [(128, 512), (512, 128)]  # query, key, value, out, up, down


def batch(name):
    """Images, and a class for each: the data of `workbench.experiments.bench.workloads`."""
    rng = np.random.default_rng(7)
    shape = SHAPES[name]
    return rng.random(shape, np.float32), rng.integers(0, 10, (shape[0], 1))


def weights(name):
    """The arrays all libraries start from, so that their losses can be compared; every bias is zero.

    Filters [number, channels, height, width] and matrices [inputs, outputs], from the first layer to the last.
    """
    if name == "encoder":
        shapes = [*ENCODER_LAYER, *ENCODER_LAYER, (128, 10)]
    else:
        widths = WIDTHS[name]
        matrices = zip(widths, widths[1:])  # noqa: RUF007 - Python 3.7 has no `pairwise`
        shapes = [*(FILTERS if name == "lenet" else []), *matrices]
    rng = np.random.default_rng(7)
    return [np.float32(rng.uniform(-1, 1, shape) * bound(shape)) for shape in shapes]


def bound(shape):
    """Of Xavier's uniform distribution for a matrix, of He's for filters."""
    return math.sqrt(6 / (sum(shape) if len(shape) == 2 else np.prod(shape[1:])))


def peak():
    """Bytes this process has held at most."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


def lap(step, count):
    """Seconds of so many steps."""
    begun = perf_counter()
    for _ in range(count):
        step()
    return perf_counter() - begun


def rate(step, seconds, agreed):
    """Steps per second of a lap that is as long as asked for."""
    count = 5
    while True:
        took = agreed(lap(step, count))
        if took >= seconds:
            return count / took
        count = max(count + 1, min(10 * count, int(1.2 * count * seconds / took)))


def measured(training, version, seconds, agreed=float):
    """What is printed.

    Args:
        training: makes a step, which returns its loss, or those of all devices, in the memory of the host.
        agreed: gives all processes that train together the same time of a lap.
    """
    before, begun = peak(), perf_counter()
    step = training()
    losses = [step()]
    first = perf_counter() - begun
    warm = [step() for _ in range(WARM_UP - 1)]
    per_second = rate(step, seconds, agreed)
    losses += [warm[-1], step()]
    means = [float(np.mean(loss)) for loss in losses]
    return {"version": version, "rate": per_second, "first_step": first, "growth": peak() - before, "losses": means}


def arguments():
    """Workload, devices, seconds."""
    name, devices, seconds = sys.argv[1:]
    return name, int(devices), float(seconds)


def main(training, version):
    """The program of a peer that is one process; `training(name, devices)` makes a step."""
    name, devices, seconds = arguments()
    print(json.dumps(measured(lambda: training(name, devices), version, seconds)))

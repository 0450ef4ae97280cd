"""How a step is measured, here and in other libraries; needs the standard library only."""

import json
import sys
from statistics import median
from time import perf_counter

STEPS = 3  # at least


def peak():
    """Bytes this process has held at most; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except OSError:
        return 0


def measured(make, seconds):
    """What is printed, of steps for so many seconds, or until a step raises StopIteration, for there are no more.

    median, best   seconds of a step, after the first two
    first          seconds from nothing to the end of the first step
    growth         bytes by which the peak memory of the process grew
    losses         of the first step and of the last

    Args:
        make: makes a step, a function that gives the loss as a float.
    """
    before, begun = peak(), perf_counter()
    step = make()
    losses = [step()]
    first = perf_counter() - begun
    step()
    times: list[float] = []
    while sum(times) < seconds or len(times) < STEPS:
        begun = perf_counter()
        try:
            losses[1:] = [step()]
        except StopIteration:
            break
        times.append(perf_counter() - begun)
    return {
        "median": median(times),
        "best": min(times),
        "first": first,
        "growth": peak() - before,
        "losses": losses,
    }


def main(make):
    """The program of a peer."""
    print(json.dumps(measured(make, float(sys.argv[1]))))

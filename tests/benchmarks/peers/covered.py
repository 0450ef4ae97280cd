"""What the peers of the programs of `workbench bench --coverage` share: where one starts, how its steps are measured.

Each peer is a program, `python PEER PROGRAM START SECONDS [OPTION ...]`. START is a file that `beside_covered` writes:
our batch and our parameters. With the option `plain` nothing is drawn: no dropout, and noise is one number. It ends by
printing a line of JSON:

    version       of its library
    trained       scalars that the optimizer changes
    first_step    seconds from the import to the end of the first step
    median, best  seconds of a step, after the warm-up; every step is fed from NumPy arrays and brings its loss back
    losses        of the first step, of the sixth, and of the last one of the warm-up
"""

import json
import statistics
import sys
from time import perf_counter
from typing import NamedTuple

import numpy as np

WARM_UP = 20  # steps
LATER = 5  # steps after the first: the loss of this one is compared, too
STEPS = 5  # at least, are measured
NOISE = 0.75  # of all numbers, where nothing is drawn


class Start(NamedTuple):
    """Where a program starts.

    Attributes:
        feed: a batch, in the order of the inputs. values: of all that is trained, in the order in which it is made.
        drawn: whether dropout and noise are drawn; else no step differs from the same step of another library.
    """

    feed: list
    values: list
    drawn: bool


def start_in(file, drawn):
    """What a file of `beside_covered` holds."""
    with np.load(file) as arrays:
        feed = [arrays[key] for key in arrays.files if key.startswith("feed.")]
        values = [arrays[key] for key in arrays.files if key.startswith("value.")]
    return Start(feed, values, drawn)


def step_times(step, seconds):
    """Seconds of single steps, for so long."""
    times = []
    begun = before = perf_counter()
    while before - begun < seconds or len(times) < STEPS:
        step()
        now = perf_counter()
        times.append(now - before)
        before = now
    return times


def measured(training, version, seconds):
    """What is printed.

    Args:
        training: makes a step, which returns its loss in the memory of the host, and tells how much it trains.
    """
    begun = perf_counter()
    step, trained = training()
    losses = [step()]
    first = perf_counter() - begun
    losses += [step() for _ in range(WARM_UP)]
    times = step_times(step, seconds)
    return {
        "version": version,
        "trained": int(trained),
        "first_step": first,
        "median": statistics.median(times),
        "best": min(times),
        "losses": [float(losses[i]) for i in (0, LATER, -1)],
    }


def main(training, version):
    """The program of a peer; `training(name, start, options)` makes a step, and tells how many scalars it trains."""
    name, file, seconds, *options = sys.argv[1:]
    start = start_in(file, drawn="plain" not in options)
    print(json.dumps(measured(lambda: training(name, start, options), version, float(seconds))))

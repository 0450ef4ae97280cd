"""What a program of `workbench bench --coverage` is; they are declared in `programs/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import numpy as np

from workbench.experiments.bench.workloads import SEED, Training, started

Feed = dict[str, np.ndarray]


class CoveredProgram(NamedTuple):
    """A program of which every node is looked at.

    Attributes:
        about: what is trained, and how.
        start: makes what its step runs, one after the other: a step of a GAN is two programs. It gets what users
            see: what `import workbench as paddle` gives them.
    """

    name: str
    about: str
    start: Callable[[Any], Sequence[Training]]


def trained(
    name: str, about: str, body: Callable[[Any], Any], feed: Callable[[np.random.Generator], Feed]
) -> CoveredProgram:
    """A program with one loss.

    Args:
        body: builds the program on what users see, and returns the loss, minimised. feed: makes a batch.
    """

    def start(paddle: Any) -> Sequence[Training]:
        return [started(partial(body, paddle), feed(np.random.default_rng(SEED)), 1)]

    return CoveredProgram(name, about, start)


def all_programs() -> dict[str, CoveredProgram]:
    """Those of all files in `programs/`, by name."""
    from workbench.experiments.bench.coverage import programs

    files = sorted(info.name for info in iter_modules(programs.__path__))
    declared = [import_module(f"{programs.__name__}.{name}").PROGRAMS for name in files]
    return {program.name: program for own in declared for program in own}

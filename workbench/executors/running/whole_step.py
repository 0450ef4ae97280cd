"""A whole step as one call of compiled code.

A step that one thread runs in kernels from end to end needs Python only before and after. What the call leaves behind
tells how far it came, so that a signal, which Python answers right behind the call, finds the step applied whole, or
not at all, or in the middle of its commit, which is then taken to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.executors.feeding.feed_plan import Fed, FeedPlan
from workbench.executors.fetching.collect import Collector
from workbench.executors.fetching.merge import Merger
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.framework.values.number import allocator
from workbench.runtime.blas import one_blas_thread
from workbench.runtime.native.arrays import ArrayLayout, array_layout
from workbench.runtime.native.control import lines
from workbench.runtime.native.tape import address
from workbench.runtime.undisturbed import Call
from workbench.runtime.words import step as words
from workbench.runtime.words.codes import BLEMISHED, HELD, PAUSED

Result = tuple[Merger, list[Any]]
_Move = tuple[int, int, int, int]  # see `words.step`
_Source = tuple[int, str]  # of a feed: device and name


class WholeStep:
    """A binding's speculation and its commit, one after the other.

    Args:
        counter: counts the steps that have been applied.
        first, last: the pieces of tape that are these phases.
        results: how every result is made, and of which arrays.
        ballot: the state of the channel to other trainers, who have to agree; None if there are none.

    Attributes:
        has_telltales: whether it has been told where to look for NaN and Inf; blemished: whether the last run met one.
        is_open: whether a run has begun and did not come to its end.
        recipe: the split of feeds it is ready for, None if there is none.
    """

    def __init__(
        self,
        binding: Binding,
        counter: np.ndarray,
        first: Segment,
        last: Segment,
        results: Sequence[Result],
        layout: ArrayLayout,
        ballot: np.ndarray | None,
    ) -> None:
        assert binding.pool.control is not None
        call = binding.pool.control.run_step
        self._pool, self._has_flags = binding.pool, binding.has_team
        self._first, self._last, self._ballot = first, last, ballot
        self._outs = [(allocator(m.shape or ()), m.shape or (), m.dtype) for m, _ in results]
        self._counting = [counter, *(bucket.counter for bucket in binding.writes.changed.buckets)]
        self._counters = np.array(list(map(address, self._counting)), np.int64)
        self._moves_out = _moves_out([arrays for _, arrays in results])
        self._array = lines(words.WORDS)
        self._words = self._array.data
        whole: Call = partial(call, address(self._array))
        self._call: Call = partial(one_blas_thread.run, whole) if binding.calls_blas else whole
        self._array[[words.FIRST, words.LAST]] = first.address, last.address
        self._array[[words.COUNTERS, words.COUNTED]] = address(self._counters), len(self._counters)
        self._array[[words.MADE, words.RESULTS]] = address(self._moves_out), len(self._moves_out)
        self._array[[words.DATA, words.FLAGS]] = layout
        self._array[words.BALLOT] = 0 if ballot is None else address(ballot)
        self._fed_places = binding.fed_places
        self.recipe: FeedPlan | None = None
        self._declined: FeedPlan | None = None
        self._sources: list[_Source] = []
        self._stretches = 0
        self.has_telltales = self.blemished = self.is_open = False

    def look_at(self, stretches: np.ndarray) -> None:
        """Look at these stretches of float32 before the commit, see `words.step`; `run` returns None at a NaN or Inf.

        The binding keeps them.
        """
        self._array[words.TELLTALES], self._stretches, self.has_telltales = address(stretches), len(stretches), True

    def takes(self, fed: Fed) -> bool:
        """Whether what is fed can be put in place by the call, which is made ready for feeds that are split like it."""
        if fed.plan is self._declined:
            return False
        self.recipe = None  # until the words of the new one are there: Ctrl-C may come in between
        sources = self._prepare(fed)
        if sources is None:
            self._declined = fed.plan
            return False
        self._sources, self.recipe = sources, fed.plan
        return True

    def _prepare(self, fed: Fed) -> list[_Source] | None:
        """Where feeds of this recipe go to."""
        arrays, cells = self._fed_places.of(fed.plan)
        moves: list[_Move] = []
        for place, name, index, target in arrays:
            whole = fed.sources[place][name]
            part = whole[index]
            if part.dtype != target.dtype or part.shape != target.shape or not target.flags.c_contiguous:
                return None
            start = 0 if index is ... else index.start
            offset = start * (whole.nbytes // len(whole)) if start else 0
            moves.append((len(self._outs) + len(moves), offset, address(target), target.nbytes))
        if cells:
            return None
        self._moves_in = np.array(moves, np.int64).reshape(-1, words.MOVE_WORDS)
        self._objects = np.zeros(len(self._outs) + len(moves), np.int64)
        self._names = self._objects.data
        self._array[[words.FED, words.FEEDS]] = address(self._moves_in), len(moves)
        self._words[words.OBJECTS] = address(self._objects)
        return [(place, name) for place, name, _, _ in arrays]

    # The words point at memory of the binding, which keeps this object.

    def run(self, fed: Fed, looking: bool = False) -> list[Any] | None:
        """Run the step, of a feed it takes.

        Args:
            looking: whether to look for NaN and Inf between the two phases.

        Returns:
            the results; None if it came upon something that kernels decline, or a blemish: the commit is then to come.
            Also where it waits long for another trainer.
        """
        self.is_open = True
        objects, sources, number, outs = self._names, fed.sources, 0, []
        for allocate, shape, dtype in self._outs:
            out = allocate(shape, dtype)
            outs.append(out)
            objects[number] = id(out)
            number += 1
        for place, name in self._sources:
            objects[number] = id(sources[place][name])
            number += 1
        self._words[words.TOLD] = self._stretches if looking else 0
        if self._has_flags or self._pool.is_unsettled:  # flags hold numbers of steps
            self._pool.begin()
        status = self._call()
        while status in (PAUSED, HELD):  # so that signals are answered
            status = self._call()
        if not status:
            self.is_open = False
            return outs
        self.blemished = status == BLEMISHED
        return None

    def close(self) -> None:
        """What it left open has been put in order."""
        self.is_open, self._words[words.AGREED] = False, 0

    @property
    def applied(self) -> int:
        """How many steps have been applied."""
        return self._words[words.RUNS]

    @property
    def commits(self) -> bool:
        """Whether it has stopped within the commit: all that had to agree have."""
        return self._last.begun or bool(self._words[words.AGREED])

    @property
    def is_shared(self) -> bool:
        """Whether it has stopped where other trainers may be waiting for what comes: it is not to begin anew."""
        return self._ballot is not None and self._first.begun


def whole_step(
    binding: Binding, collector: Collector, counter: np.ndarray, ballot: np.ndarray | None
) -> WholeStep | None:
    """A binding as one call.

    Args:
        collector: of its fetches. counter: one int64 that counts the steps that have been applied.
        ballot: see `WholeStep`.

    Returns:
        None unless one thread runs all of it in kernels, everything it changes lies in buckets, which count, and a
        first step has shown what the results are like.
    """
    first, last = (_only_piece(binding.led(programs)) for programs in (binding.speculative, binding.commit))
    layout = array_layout()
    if first is None or last is None or layout is None or binding.writes.staged:
        return None
    if binding.writes.changed.tensors:
        return None
    results = collector.preallocated()
    if results is None or not all(_can_be_moved(*result) for result in results):
        return None
    return WholeStep(binding, counter, first, last, results, layout, ballot)


def _only_piece(programs: Sequence[ThreadProgram]) -> Segment | None:
    """What the only thread runs, if that is a piece of a tape."""
    if len(programs) != 1 or len(programs[0].units) != 1:
        return None
    (unit,) = programs[0].units
    return unit if programs[0].is_native and isinstance(unit, Segment) else None


def _can_be_moved(merger: Merger, arrays: Sequence[Any]) -> bool:
    return merger.shape is not None and all(a.dtype == merger.dtype and a.flags.c_contiguous for a in arrays)


def _moves_out(results: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """The devices' values of every result, one after the other."""
    moves: list[_Move] = []
    for number, arrays in enumerate(results):
        offset = 0
        for array in arrays:
            moves.append((number, offset, address(array), array.nbytes))
            offset += array.nbytes
    return np.array(moves, np.int64).reshape(-1, words.MOVE_WORDS)

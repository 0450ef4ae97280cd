"""One epoch of a `DataLoader`: from index batches to finished batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from workbench.data.collate import RaggedBatch, default_collate_fn, default_convert_fn
from workbench.data.dataset import IterableDataset, RowReader, row_reader
from workbench.data.prefetch import Prefetcher
from workbench.data.sampler import batches_from
from workbench.data.split import check_groups, check_rows
from workbench.data.worker import Sample, in_turn, workers_of, working
from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.framework.outside import is_from_outside

SHOWN_INDICES = 8
Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class EpochRecipe:
    """What an epoch is made of: a copy of the loader's settings, so that a later change of them cannot
    reach an epoch that a thread is already loading.

    Attributes:
        batching: False if every item is one sample (`batch_size=None`).
        names: names of the feed dict, or None for lists.
        places: batches of one item.
        workers: how many take turns in reading; 0 if the dataset is not to know of any.
    """

    dataset: Any
    batch_sampler: Any
    batching: bool
    batch_size: int
    drop_last: bool
    collate_fn: Collate | None
    names: tuple[str, ...] | None
    places: int
    devices: int | None
    prefetch: int
    timeout: float
    workers: int
    worker_init_fn: Callable[[int], None] | None


@dataclass
class LoadProgress:
    """Where loading is; written by the loading thread, read for messages."""

    epoch: int
    batch: int = 0
    sample: Any = None

    def __str__(self) -> str:
        sample = "" if self.sample is None else f", sample {self.sample}"
        return f"batch {self.batch} of epoch {self.epoch}{sample}"

    @property
    def where(self) -> str:
        """The batch, without the sample."""
        return f"batch {self.batch} of epoch {self.epoch}"


class LoaderIterator(Iterator[Any]):
    """The items of one epoch, from batch number `start` on.

    `report(token, epoch, position, begun)` is called for every item handed over and at the end of the epoch:
    the position counts what the consumer got, not what was made ahead. `finish(item)` is called, in the consumer's
    thread, for every item before it is handed over.
    """

    def __init__(
        self,
        recipe: EpochRecipe,
        epoch: int,
        start: int,
        report: Callable[..., None],
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        self.token = object()
        self._finish = finish
        self._recipe, self._report = recipe, report
        self._open = True
        self._begin(epoch, start)

    def _begin(self, epoch: int, start: int) -> None:
        self._epoch, self._start, self._position = epoch, start, start
        self._source = _source(self._recipe, LoadProgress(epoch, start))

    def __next__(self) -> Any:
        if not self._open:
            raise StopIteration
        try:
            item = self._item()
        except StopIteration:
            self._open = False
            self._report(self.token, self._epoch + 1, 0, False)
            raise
        except BaseException:
            self._open = False
            raise
        self._position += self._recipe.places
        self._report(self.token, self._epoch, self._position, True)
        return item if self._finish is None else self._finish(item)

    def _item(self) -> Any:
        try:
            return next(self._source)
        except StopIteration:
            if self._start == 0 or self._position > self._start:
                raise
        # A stream was taken up again after its last batch: that epoch is over, the next one follows.
        self._begin(self._epoch + 1, 0)
        return next(self._source)

    def close(self) -> None:
        """End the epoch here: the thread stops, and `next()` raises StopIteration."""
        self._open = False
        self._source.close()


def _source(recipe: EpochRecipe, progress: LoadProgress) -> Any:
    """The items from where `progress` stands, made ahead on a thread if the recipe says so; has `close()`."""
    items = _batches(recipe, progress.batch, progress)
    if recipe.places > 1:
        items = _groups(items, recipe)
    if not recipe.prefetch:
        return items
    return Prefetcher(items, recipe.prefetch, recipe.timeout, waiting_for=lambda: f"loading {progress}")


def _groups(batches: Iterator[Any], recipe: EpochRecipe) -> Iterator[list[Any]]:
    while group := list(islice(batches, recipe.places)):
        if len(group) == recipe.places:
            yield group
        else:
            check_groups(len(group), recipe.places, recipe.drop_last)


def _batches(recipe: EpochRecipe, start: int, progress: LoadProgress) -> Iterator[Any]:
    load = _stream_batches if isinstance(recipe.dataset, IterableDataset) else _indexed_batches
    for number, batch in enumerate(load(recipe, start, progress), start):
        progress.sample = None
        if recipe.devices is not None:
            check_rows(batch, recipe.devices, progress.where)
        yield batch if recipe.names is None else feed_dict(batch, recipe.names, progress.where)
        progress.batch = number + 1


# Datasets with an index


def _indexed_batches(recipe: EpochRecipe, start: int, progress: LoadProgress) -> Iterator[Any]:
    rows = row_reader(recipe.dataset) if recipe.batching and recipe.collate_fn is None else None
    workers = workers_of(recipe.dataset, recipe.workers, recipe.worker_init_fn)
    for number, indices in enumerate(batches_from(recipe.batch_sampler, progress.epoch, start), start):
        if rows is not None:
            yield _read_rows(rows, indices, progress)
            continue
        with working(workers[number % recipe.workers]) if workers else nullcontext():
            samples = [_sample(recipe.dataset, index, progress) for index in _as_ints(indices)]
        yield _join(recipe, samples, indices, progress)


def _as_ints(indices: Sequence[int] | np.ndarray) -> Sequence[int]:
    return indices.tolist() if isinstance(indices, np.ndarray) else indices


def _read_rows(rows: RowReader, indices: Any, progress: LoadProgress) -> list[np.ndarray]:
    try:
        return rows(np.asarray(indices, dtype=np.int64))
    except Exception as exc:
        if is_from_outside(exc):
            raise
        raise EnforceNotMet(f"{progress.where}, samples {_listing(indices)}: {_said(exc)}") from exc


def _sample(dataset: Any, index: Any, progress: LoadProgress) -> Any:
    progress.sample = index
    try:
        return dataset[index]
    except Exception as exc:
        if is_from_outside(exc):
            raise
        what = f"sample {index} of {type(dataset).__name__} ({progress.where})"
        raise EnforceNotMet(f"{what} raised {_said(exc)}") from exc


# Streams


def _stream_batches(recipe: EpochRecipe, start: int, progress: LoadProgress) -> Iterator[Any]:
    for chunk in islice(_chunks(recipe, progress), start, None):
        if len(chunk) == recipe.batch_size or not recipe.drop_last:
            yield _join(recipe, [sample for _, sample in chunk], [number for number, _ in chunk], progress)


def _chunks(recipe: EpochRecipe, progress: LoadProgress) -> Iterator[list[Sample]]:
    """The samples of a stream, as many as a batch has, with their numbers."""
    if recipe.workers:
        workers = workers_of(recipe.dataset, recipe.workers, recipe.worker_init_fn)
        yield from in_turn(workers, lambda dataset: _stream(dataset, progress), recipe.batch_size)
        return
    samples = enumerate(_stream(recipe.dataset, progress))
    while chunk := list(islice(samples, recipe.batch_size)):
        yield chunk


def _stream(dataset: IterableDataset, progress: LoadProgress) -> Iterator[Any]:
    """The samples of the stream; `progress.sample` counts them from the start of the epoch."""
    number = progress.sample = 0
    try:
        for number, sample in enumerate(dataset, 1):
            yield sample
            progress.sample = number
    except Exception as exc:
        if is_from_outside(exc):
            raise
        what = f"sample {number} of {type(dataset).__name__} ({progress.where})"
        raise EnforceNotMet(f"{what} raised {_said(exc)}") from exc


# Joining


def _join(recipe: EpochRecipe, samples: list[Any], indices: Any, progress: LoadProgress) -> Any:
    if not recipe.batching:
        return (recipe.collate_fn or default_convert_fn)(samples[0])
    if recipe.collate_fn is not None:
        return _join_by_user(recipe.collate_fn, samples, indices, progress)
    try:
        return default_collate_fn(samples)
    except RaggedBatch as exc:
        pair = f"samples {indices[0]} and {indices[exc.position]} of the dataset"
        raise RaggedBatch(f"{exc} ({progress.where}: {pair})", exc.position) from None
    except InvalidArgument as exc:
        raise type(exc)(f"{exc} ({progress.where}, samples {_listing(indices)})") from None


def _join_by_user(collate: Collate, samples: list[Any], indices: Any, progress: LoadProgress) -> Any:
    try:
        return collate(samples)
    except Exception as exc:
        if is_from_outside(exc):
            raise
        what = f"collate_fn raised {_said(exc)}"
        raise EnforceNotMet(f"{what} ({progress.where}, samples {_listing(indices)})") from exc


def feed_dict(batch: Any, names: tuple[str, ...], where: str) -> dict[str, Any]:
    """A batch as `{name: array}`.

    Raises:
        InvalidArgument: the fields of the batch are not those of the feed list.
    """
    if isinstance(batch, Mapping):
        if set(batch) != set(names):
            fields = sorted(map(str, batch))
            raise InvalidArgument(f"{where} has the fields {fields}, feed_list names {list(names)}")
        return dict(batch)
    values = batch if isinstance(batch, (list, tuple)) else [batch]
    if len(values) != len(names):
        expected = f"{len(names)}: {list(names)}"
        raise InvalidArgument(f"{where} has {len(values)} fields, feed_list names {expected}")
    return dict(zip(names, values))


def _listing(indices: Any) -> str:
    shown = ", ".join(str(index) for index in list(indices)[:SHOWN_INDICES])
    return shown if len(indices) <= SHOWN_INDICES else f"{shown}, … ({len(indices)} in all)"


def _said(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__

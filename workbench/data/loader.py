"""`DataLoader`: batches of a dataset, in order or shuffled, prefetched, resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.data.dataset import IterableDataset, row_bytes
from workbench.data.iteration import EpochRecipe, LoaderIterator
from workbench.data.sampler import (
    BatchSampler,
    checked_count,
    checked_flag,
    checked_positive,
    random_sampler_of,
)
from workbench.data.split import check_groups, check_last_batch
from workbench.data.tensors import as_tensors
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.guard import in_static_mode

SMALL_BATCH_BYTES = 256 << 10  # gathering this much takes about as long as handing it to another thread


class DataLoader:
    """Iterates over batches of `dataset`; signature and defaults of `paddle.io.DataLoader`.

    Every `iter()` is one epoch. A batch has the structure of a sample, with a new first axis: a list for
    tuple samples, a dict for dict samples; what is in it are tensors in dynamic mode, and arrays in static mode.
    With `return_list=False` it is a feed dict of arrays.

    Args:
        dataset: a `Dataset`, an `IterableDataset`, or anything with `__getitem__` and `__len__`.
        feed_list: variables (anything with `.name`), in the order of a sample's fields.
        places: None or one place: a batch is split over devices by the executor. With N > 1 places every
            item is a list of N consecutive batches, one per place, as in Paddle
            (`ParallelExecutor.run(feed=[...])`).
        return_list: False gives `{name: array}`, named by `feed_list`; a dict sample is named by its keys.
        batch_sampler: iterable of index lists, instead of `batch_size`, `shuffle`, `drop_last` and `seed`.
        batch_size: None turns batching off: every item is one sample, through `collate_fn` if given.
        drop_last: leave out a last batch with fewer than `batch_size` rows.
        collate_fn: makes a batch of a list of samples; default: `default_collate_fn`.
        num_workers: how many workers take turns in reading; `get_worker_info()` tells a dataset which of them it is
            read for. They are no processes: one thread makes all batches ahead, in the order workers would give them.
        use_buffer_reader, prefetch_factor: Paddle's way to say `prefetch=prefetch_factor` or `prefetch=0`.
        use_shared_memory: has no effect without worker processes, as in Paddle.
        timeout: seconds to wait for a prefetched batch; 0 means no limit.
        worker_init_fn: called with the number of every worker before it reads.
        persistent_workers: has no effect without worker processes.
        seed: (ours) fixes the shuffles of all epochs; default: drawn from NumPy's global generator.
        prefetch: (ours) batches made ahead by a background thread; 0 makes them in the calling thread.
            Default: what the line above says, but 0 for a `TensorDataset` whose batches are so small that
            handing one to another thread takes longer than making it.
        devices: (ours) number of devices a batch is split over; a batch with fewer rows is then an error,
            before the first batch where lengths are known.

    Raises:
        InvalidArgument, InvalidType: an argument is wrong or contradicts another.

    Example:
        >>> data = wb.io.TensorDataset([np.zeros((5, 4), np.float32), np.arange(5)])
        >>> [images.shape for images, labels in wb.io.DataLoader(data, batch_size=2)]
        [[2, 4], [2, 4], [1, 4]]
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Any] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
        *,
        seed: int | None = None,
        prefetch: int | None = None,
        devices: int | None = None,
    ) -> None:
        self.num_workers = checked_count("num_workers", num_workers)
        if not (worker_init_fn is None or callable(worker_init_fn)):
            raise InvalidType(f"worker_init_fn must be a function of a worker's number, got {worker_init_fn!r}")
        self.worker_init_fn = worker_init_fn
        self._given = {
            "feed_list": feed_list, "places": places, "return_list": return_list, "batch_sampler": batch_sampler,
            "batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last, "collate_fn": collate_fn,
            "use_buffer_reader": use_buffer_reader, "prefetch_factor": prefetch_factor,
            "use_shared_memory": use_shared_memory, "timeout": timeout, "prefetch": prefetch, "devices": devices,
            "num_workers": num_workers, "worker_init_fn": worker_init_fn, "persistent_workers": persistent_workers,
        }  # fmt: skip
        self.dataset = dataset
        self.feed_list = feed_list
        self.return_list = checked_flag("return_list", return_list)
        self.drop_last = checked_flag("drop_last", drop_last)
        self.shuffle = checked_flag("shuffle", shuffle)
        self.use_shared_memory = checked_flag("use_shared_memory", use_shared_memory)
        self.collate_fn = collate_fn
        self.prefetch = _prefetch_depth(prefetch, use_buffer_reader, prefetch_factor)
        self.devices = None if devices is None else checked_positive("devices", devices)
        self.batch_size = batch_size
        self.batch_sampler = self._make_batch_sampler(batch_sampler, seed)
        if prefetch is None and not timeout and self._makes_batches_at_once():
            self.prefetch = 0
        self.timeout = _checked_timeout(timeout, self.prefetch)
        self.places = _place_count(places)
        self._names = _feed_names(feed_list, self.return_list)
        if devices is not None and self.places > 1:
            raise InvalidArgument("devices= splits a batch, places= gives each place its own: pass one only")
        self._at = (0, 0, False)  # epoch, batches delivered in it, whether an iterator has begun it
        self._newest: object = None

    # Construction

    def _make_batch_sampler(self, batch_sampler: Any, seed: int | None) -> Any:
        """The index batches of a dataset with an index; None for a stream."""
        self._batching = self.batch_size is not None or batch_sampler is not None
        if batch_sampler is not None:
            return self._given_batch_sampler(batch_sampler, seed)
        if self.batch_size is not None:
            self.batch_size = checked_positive("batch_size", self.batch_size)
        elif self.drop_last:
            raise InvalidArgument("drop_last=True needs a batch_size")
        if seed is not None and not self.shuffle:
            raise InvalidArgument("seed= fixes a shuffle: pass shuffle=True too")
        if isinstance(self.dataset, IterableDataset):
            return self._no_batch_sampler()
        return self._own_batch_sampler(seed)

    def _no_batch_sampler(self) -> None:
        if self.shuffle:
            raise InvalidArgument("shuffle=True needs a dataset with a length; an IterableDataset is a stream")

    def _own_batch_sampler(self, seed: int | None) -> BatchSampler:
        if not hasattr(self.dataset, "__getitem__") or not hasattr(self.dataset, "__len__"):
            raise InvalidType(
                f"dataset must have __getitem__ and __len__, got {type(self.dataset).__name__}; "
                "derive from IterableDataset to load a stream"
            )
        return BatchSampler(self.dataset, None, self.shuffle, self.batch_size or 1, self.drop_last, seed)

    def _given_batch_sampler(self, batch_sampler: Any, seed: int | None) -> Any:
        if isinstance(self.dataset, IterableDataset):
            raise InvalidArgument("batch_sampler= needs a dataset with an index, not an IterableDataset")
        if self.batch_size != 1 or self.shuffle or self.drop_last or seed is not None:
            raise InvalidArgument(
                "batch_sampler= says how to batch: leave batch_size, shuffle, drop_last and seed unset"
            )
        if not hasattr(batch_sampler, "__iter__"):
            kind = type(batch_sampler).__name__
            raise InvalidType(f"batch_sampler must be an iterable of index lists, got {kind}")
        return batch_sampler

    def _makes_batches_at_once(self) -> bool:
        """Whether making a batch is quicker than a hand-off between threads (about 30 µs)."""
        if self.collate_fn is not None or self.batch_size is None or not self._batching:
            return False
        size = row_bytes(self.dataset)
        return size is not None and size * self.batch_size < SMALL_BATCH_BYTES

    # Iteration

    def __len__(self) -> int:
        """Number of items of an epoch.

        Raises:
            InvalidType: an IterableDataset, or a batch sampler without a length.
        """
        batches = self._batch_count()
        if batches is None:
            raise InvalidType("this DataLoader reads a stream: its number of batches is unknown")
        return batches // self.places

    def _batch_count(self) -> int | None:
        return len(self.batch_sampler) if hasattr(self.batch_sampler, "__len__") else None

    def __call__(self) -> LoaderIterator:
        return iter(self)

    def __iter__(self) -> LoaderIterator:
        """Begin the next epoch, or take up the one that `load_state_dict` restored.

        In dynamic mode the batches have tensors, in static mode, and as feed dicts, arrays.

        Raises:
            InvalidArgument: the last batch is smaller than `devices`, or the places cannot share the batches.
        """
        return self._begin(None if in_static_mode() or self._names is not None else as_tensors)

    def arrays(self) -> LoaderIterator:
        """As `iter()`, with arrays in either mode."""
        return self._begin(None)

    def _begin(self, finish: Callable[[Any], Any] | None) -> LoaderIterator:
        if self.devices is not None:
            self.check_devices(self.devices)
        check_groups(self._batch_count(), self.places, self.drop_last)
        epoch, position, begun = self._at
        if begun:
            epoch, position = epoch + 1, 0
        iterator = LoaderIterator(self._recipe(), epoch, position, self._report, finish)
        self._at = (epoch, position, True)
        self._newest = iterator.token
        return iterator

    def _recipe(self) -> EpochRecipe:
        return EpochRecipe(
            dataset=self.dataset,
            batch_sampler=self.batch_sampler,
            batching=self._batching,
            batch_size=self.batch_size or 1,
            drop_last=self.drop_last,
            collate_fn=self.collate_fn,
            names=self._names,
            places=self.places,
            devices=self.devices,
            prefetch=self.prefetch,
            timeout=self.timeout,
            workers=self.num_workers,
            worker_init_fn=self.worker_init_fn,
        )

    def _report(self, token: object, epoch: int, position: int, begun: bool) -> None:
        """An iterator says how far it is; only the newest one moves the loader's state."""
        if token is self._newest:
            self._at = (epoch, position, begun)

    def check_devices(self, devices: int) -> None:
        """Raise if some batch has fewer rows than `devices`, as far as lengths tell before it is loaded.

        With `devices=` every batch is checked as it comes, streams included.

        Raises:
            InvalidArgument: names the batch, its rows, the dataset's length, batch_size and `devices`.
        """
        checked_positive("devices", devices)
        if self._batching and self.places == 1 and self.batch_sampler is not None:
            check_last_batch(self.batch_sampler, devices)

    # Epochs and state

    @property
    def epoch(self) -> int:
        """The epoch being read, or the next one if none is."""
        return self._at[0]

    @property
    def seed(self) -> int | None:
        """Seed of the shuffles; None if the order does not depend on one."""
        sampler = random_sampler_of(self.batch_sampler)
        return None if sampler is None else sampler.seed

    def again(self, batch_size: int | None = None, seed: int | None = None) -> DataLoader:
        """A loader of the same dataset, made like this one, that begins with the first batch of the first epoch.

        Args:
            batch_size, seed: others than this one's; the seed only counts where batches are shuffled.

        Raises:
            InvalidArgument: another batch size for a batch sampler of the user's.
        """
        given = dict(self._given)
        if batch_size is not None:
            if given["batch_sampler"] is not None:
                raise InvalidArgument("the batches of this DataLoader come from a batch_sampler, which has their size")
            given["batch_size"] = batch_size
        return DataLoader(self.dataset, **given, seed=(self.seed if seed is None else seed) if self.shuffle else None)

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one that the next `iter()` reads, from its first batch."""
        self._at = (checked_count("epoch", epoch), 0, False)
        self._newest = None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as JSON types: `epoch`, `position` (batches handed over in it), `seed`, and
        the settings that give the position its meaning. Batches made ahead but not handed over do not count.
        """
        epoch, position, _ = self._at
        batches = self._batch_count()
        if batches is not None and 0 < batches <= position:
            epoch, position = epoch + 1, 0
        return {"epoch": epoch, "position": position, "seed": self.seed, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {
            "batches": self._batch_count(),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken: the next `iter()` begins with the very next batch of that epoch.

        A dataset with an index goes there directly; a stream is read and dropped up to there.

        Raises:
            InvalidArgument: as `check_state_dict`; nothing is changed then.
        """
        self.check_state_dict(state)
        sampler = random_sampler_of(self.batch_sampler)
        if sampler is not None:
            sampler.seed = int(state["seed"])
        self._at, self._newest = (int(state["epoch"]), int(state["position"]), False), None

    def check_state_dict(self, state: Any) -> None:
        """What `load_state_dict` raises for a state, without going there.

        Raises:
            InvalidArgument: a key is missing or unknown, or a setting differs.
        """
        settings = self._settings()
        expected = {"epoch", "position", "seed", *settings}
        if not isinstance(state, dict) or set(state) != expected:
            got = sorted(state) if isinstance(state, dict) else repr(state)
            raise InvalidArgument(f"DataLoader state must have the keys {sorted(expected)}, got {got}")
        differing = [name for name in settings if state[name] != settings[name]]
        if differing:
            changes = ", ".join(f"{name} was {state[name]}, is {settings[name]}" for name in differing)
            raise InvalidArgument(f"the state was taken from another DataLoader: {changes}")
        checked_count("epoch", state["epoch"])
        checked_count("position", state["position"])
        self._check_seed(state["seed"])

    def _check_seed(self, seed: int | None) -> None:
        sampler = random_sampler_of(self.batch_sampler)
        if (seed is None) != (sampler is None):
            mine = None if sampler is None else sampler.seed
            raise InvalidArgument(f"the state was taken from another DataLoader: seed was {seed}, is {mine}")
        if sampler is not None:
            checked_count("seed", seed)


def _prefetch_depth(prefetch: int | None, use_buffer_reader: bool, prefetch_factor: int) -> int:
    checked_positive("prefetch_factor", prefetch_factor)
    if prefetch is None:
        return prefetch_factor if checked_flag("use_buffer_reader", use_buffer_reader) else 0
    if not use_buffer_reader or prefetch_factor != 2:
        raise InvalidArgument("prefetch= replaces use_buffer_reader= and prefetch_factor=: pass one way only")
    return checked_count("prefetch", prefetch)


def _checked_timeout(timeout: float, prefetch: int) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise InvalidArgument(f"timeout must be a number of seconds >= 0, got {timeout!r}")
    if timeout and not prefetch:
        raise InvalidArgument("timeout= needs the prefetch thread, which prefetch=0 turns off")
    return float(timeout)


def _place_count(places: Any) -> int:
    if not isinstance(places, (list, tuple)):
        return 1
    if not places:
        raise InvalidArgument("places is empty: leave it unset to let the executor split each batch")
    return len(places)


def _feed_names(feed_list: Sequence[Any] | None, return_list: bool) -> tuple[str, ...] | None:
    """Names for feed dicts; None for lists."""
    if feed_list is None:
        if not return_list:
            raise InvalidArgument("return_list=False needs feed_list=, the variables to feed, field by field")
        return None
    for position, variable in enumerate(feed_list):
        if not isinstance(getattr(variable, "name", None), str):
            kind = type(variable).__name__
            raise InvalidType(f"feed_list[{position}] must be a variable (with a .name), got {kind}")
    names = tuple(variable.name for variable in feed_list)
    if len(set(names)) < len(names):
        raise InvalidArgument(f"feed_list names a variable twice: {list(names)}")
    return None if return_list else names

"""Does every batch give each device at least one row? Asked before an epoch wherever lengths are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.data.sampler import groups_plainly
from workbench.errors import InvalidArgument


def check_last_batch(batch_sampler: Any, devices: int) -> None:
    """Raise if some batch of `batch_sampler` has fewer rows than there are devices.

    Checks our `BatchSampler`; what an overridden one or a stream yields is only known when it comes, see
    `check_rows`.

    Raises:
        InvalidArgument: names the batch, its rows, the number of samples, batch_size and `devices`.
    """
    if not groups_plainly(batch_sampler) or not hasattr(batch_sampler.sampler, "__len__"):
        return
    rows, count = batch_sampler.last_rows(), len(batch_sampler)
    if count and rows < devices:
        samples, size = len(batch_sampler.sampler), batch_sampler.batch_size
        raise InvalidArgument(
            f"{_which(count)} has {_rows(rows)}, fewer than the {devices} devices: the dataset has {samples} "
            f"samples and batch_size is {size}. {_advice(samples, size, devices)}"
        )


def check_rows(batch: Any, devices: int, where: str) -> None:
    """Raise if `batch`, as collated, has fewer rows than there are devices; `where` names the batch."""
    rows = batch_rows(batch)
    if rows is not None and rows < devices:
        raise InvalidArgument(
            f"{where} has {_rows(rows)}, fewer than the {devices} devices: pass drop_last=True, or a "
            f"batch size that leaves at least {devices} rows in every batch"
        )


def check_groups(batches: int | None, places: int, drop_last: bool) -> None:
    """Raise if `batches` cannot be dealt out evenly to `places`."""
    if batches is None or drop_last or batches % places == 0:
        return
    raise InvalidArgument(
        f"{batches} batches cannot be shared evenly by {places} places: pass drop_last=True to leave out the "
        f"last {batches % places}"
    )


def batch_rows(batch: Any) -> int | None:
    """Length of the first axis of the first array in `batch`; None if there is none."""
    if isinstance(batch, np.ndarray):
        return len(batch) if batch.ndim else None
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        return None
    return next((rows for rows in map(batch_rows, batch) if rows is not None), None)


def _which(count: int) -> str:
    return "the only batch" if count == 1 else f"the last batch (number {count - 1}, counted from 0)"


def _rows(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


def _advice(samples: int, size: int, devices: int) -> str:
    if samples < devices:
        return f"There is less than one sample for each device: use at most {samples} devices."
    options = [f"batch_size={_nearest_batch_size(samples, size, devices)}"]
    if devices <= size <= samples:
        options.insert(0, "drop_last=True")
    return f"Pass {' or '.join(options)}."


def _nearest_batch_size(samples: int, size: int, devices: int) -> int:
    """The batch size nearest to `size` whose batches all have at least `devices` rows.

    There is one: `samples` itself.
    """
    good = (b for b in range(devices, samples + 1) if samples % b == 0 or samples % b >= devices)
    return min(good, key=lambda b: abs(b - size))

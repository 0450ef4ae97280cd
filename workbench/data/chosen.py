"""Samplers that choose: by weights, or from some indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workbench.data.sampler import Sampler, checked_flag, checked_positive
from workbench.errors import InvalidArgument
from workbench.framework.values.memory import MemoryFor


class WeightedRandomSampler(Sampler):
    """Index i is drawn with a probability in proportion to `weights[i]`.

    Args:
        weights: numbers of at least 0, not all 0. num_samples: how many indices an epoch has.
        replacement: whether an index may be drawn more than once.

    Raises:
        InvalidArgument: weights that are no probabilities, or too few of them that are not 0.

    Example:
        >>> list(wb.io.WeightedRandomSampler([0.0, 1.0], num_samples=3))
        [1, 1, 1]
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        super().__init__()
        self.weights = np.asarray(weights, np.float64).reshape(-1)
        self.num_samples = checked_positive("num_samples", num_samples)
        self.replacement = checked_flag("replacement", replacement)
        if not (self.weights >= 0).all() or not np.isfinite(self.weights).all() or not self.weights.sum() > 0:
            raise InvalidArgument(f"weights must be numbers of at least 0, and not all 0, got {self.weights.tolist()}")
        if not replacement and self.num_samples > np.count_nonzero(self.weights):
            raise InvalidArgument(
                f"num_samples is {num_samples}, more than the {np.count_nonzero(self.weights)} weights that are not 0: "
                "pass replacement=True to draw some twice"
            )

    def __iter__(self) -> Iterator[int]:
        shares = self.weights / self.weights.sum()
        with MemoryFor(f"the {self.num_samples:,} indices of an epoch"):
            drawn = np.random.choice(len(shares), self.num_samples, self.replacement, shares)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices, in a random order.

    Raises:
        InvalidArgument: no index.

    Example:
        >>> sorted(wb.io.SubsetRandomSampler([4, 1, 2]))
        [1, 2, 4]
    """

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if len(indices) == 0:
            raise InvalidArgument("SubsetRandomSampler takes at least one index, got none")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in np.random.permutation(len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)

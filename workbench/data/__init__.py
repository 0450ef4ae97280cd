"""Datasets, samplers and the `DataLoader`; public as `workbench.io`, with the names of `paddle.io`."""

from workbench.data.collate import default_collate_fn, default_convert_fn
from workbench.data.dataset import Dataset, IterableDataset, Subset, TensorDataset, random_split
from workbench.data.loader import DataLoader
from workbench.data.sampler import BatchSampler, RandomSampler, Sampler, SequenceSampler

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "Subset",
    "random_split",
    "Sampler",
    "SequenceSampler",
    "RandomSampler",
    "BatchSampler",
    "DataLoader",
    "default_collate_fn",
    "default_convert_fn",
]

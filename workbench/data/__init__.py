"""Datasets, samplers and the `DataLoader`; public as `workbench.io`, with the names of `paddle.io`."""

from workbench.data.chosen import SubsetRandomSampler, WeightedRandomSampler
from workbench.data.collate import default_collate_fn, default_convert_fn
from workbench.data.composed import ChainDataset, ComposeDataset, ConcatDataset
from workbench.data.dataset import Dataset, IterableDataset, Subset, TensorDataset, random_split
from workbench.data.distributed_sampler import DistributedBatchSampler
from workbench.data.loader import DataLoader
from workbench.data.sampler import BatchSampler, RandomSampler, Sampler, SequenceSampler
from workbench.data.worker import get_worker_info

__all__ = [
    "ChainDataset",
    "ComposeDataset",
    "ConcatDataset",
    "DistributedBatchSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "get_worker_info",
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

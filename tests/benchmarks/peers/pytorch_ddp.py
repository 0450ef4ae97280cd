"""The workloads in PyTorch's DistributedDataParallel over gloo: a process of one thread for each device."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from measure import arguments, batch, measured
from pytorch import network, stepping
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel


def training(rank, meeting, name, devices):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=devices)
    x, y = (torch.from_numpy(whole).chunk(devices)[rank].numpy() for whole in batch(name))
    return stepping(name, DistributedDataParallel(network(name)), x, y)


def agreed(seconds):
    """The time the first process measured."""
    told = torch.tensor(seconds, dtype=torch.float64)
    distributed.broadcast(told, 0)
    return told.item()


def together(parts):
    """What is printed of all processes: the slowest start, memory in sum, the mean loss."""
    losses = [sum(column) / len(parts) for column in zip(*(part["losses"] for part in parts), strict=True)]
    first, growth = max(part["first_step"] for part in parts), sum(part["growth"] for part in parts)
    return {**parts[0], "first_step": first, "growth": growth, "losses": losses}


def one_of_them(rank, meeting, name, devices, seconds):
    mine = measured(lambda: training(rank, meeting, name, devices), torch.__version__, seconds, agreed)
    parts = [None] * devices
    distributed.all_gather_object(parts, mine)
    if rank == 0:
        print(json.dumps(together(parts)), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    os._exit(0)  # now and then a thread of gloo outlives its group, and would abort the process


def main():
    name, devices, seconds = arguments()
    with TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        multiprocessing.spawn(one_of_them, (meeting, name, devices, seconds), devices)


if __name__ == "__main__":
    main()

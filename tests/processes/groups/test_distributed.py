"""`workbench.distributed`: the names of Paddle's, among three processes and in one that is alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.processes.ranks import require_mpi, run_ranks
from workbench import distributed as dist
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet
from workbench.parallel.groups.objects import decoded, encoded
from workbench.parallel.launch.mpiexec import launcher_path

EXCHANGES = """
import numpy as np
import workbench as wb
from workbench import distributed as dist

world = dist.init_parallel_env()
rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size) == (world.rank, world.nranks) and dist.is_initialized() and dist.get_group() is world
own = lambda r: np.arange(6, dtype=np.float32).reshape(2, 3) * (r + 1) + r
everybody = [own(r) for r in range(size)]
tensor = lambda: wb.to_tensor(own(rank))

for op, expected in [
    (dist.ReduceOp.SUM, sum(everybody)), (dist.ReduceOp.MAX, np.maximum.reduce(everybody)),
    (dist.ReduceOp.MIN, np.minimum.reduce(everybody)), (dist.ReduceOp.PROD, np.multiply.reduce(everybody)),
    (dist.ReduceOp.AVG, sum(everybody) / np.float32(size)),
]:
    x = tensor()
    dist.all_reduce(x, op)
    assert np.array_equal(x.numpy(), expected), op
    y = tensor()
    dist.reduce(y, 1, op)
    assert np.array_equal(y.numpy(), expected if rank == 1 else own(rank)), op
whole = wb.to_tensor(np.int64([rank, 7]))
task = dist.all_reduce(whole, sync_op=False)
task.wait()
assert task.is_completed() and whole.tolist() == [sum(range(size)), 7 * size]

x = tensor()
dist.broadcast(x, 2)
assert np.array_equal(x.numpy(), everybody[2])
found = []
dist.all_gather(found, tensor())
assert np.array_equal(np.stack(found), np.stack(everybody))
tasks = [dist.all_gather(found, wb.to_tensor([rank + i]), sync_op=False) for i in range(3)]
assert len(found) == size
for task in reversed(tasks):
    task.wait()
assert [int(t) for t in found[size:]] == [r + i for i in (2, 1, 0) for r in range(size)]

x = tensor()
dist.reduce_scatter(x, [wb.to_tensor(own(rank) + j) for j in range(size)])
assert np.array_equal(x.numpy(), sum(part + rank for part in everybody))
x = tensor()
dist.scatter(x, [wb.to_tensor(own(10 + j)) for j in range(size)] if rank == 1 else None, src=1)
assert np.array_equal(x.numpy(), own(10 + rank))
found = []
dist.alltoall([wb.to_tensor([10 * rank + j]) for j in range(size)], found)
assert [int(t) for t in found] == [10 * j + rank for j in range(size)]

left, right = (rank - 1) % size, (rank + 1) % size
came, task = wb.zeros([2, 3]), dist.isend(tensor(), right)
dist.recv(came, left)
task.wait()
assert np.array_equal(came.numpy(), own(left))
messages = [dist.P2POp(dist.isend, tensor(), left), dist.P2POp(dist.irecv, came, right)]
for task in dist.batch_isend_irecv(messages):
    task.wait()
assert np.array_equal(came.numpy(), own(right))

things = {"rank": rank, "w": np.full(rank, 1.5), "t": (wb.to_tensor([rank]), None, float("inf")), 3: ["x" * rank]}
found = []
dist.all_gather_object(found, things)
assert [o["rank"] for o in found] == list(range(size)) and [o["w"].shape for o in found] == [(0,), (1,), (2,)]
assert [o[3] for o in found] == [[""], ["x"], ["xx"]] and found[2]["t"][0].tolist() == [2]
objects = [{"lr": 0.1}, [1, 2]] if rank == 0 else [None, None]
dist.broadcast_object_list(objects, 0)
assert objects == [{"lr": 0.1}, [1, 2]]
mine = []
dist.scatter_object_list(mine, [f"for {j}" for j in range(size)] if rank == 2 else None, src=2)
assert mine == [f"for {rank}"]
dist.barrier()

import warnings
pair = dist.new_group([0, 2])
assert (pair.id, pair.nranks, pair.get_group_rank(2), pair.get_group_rank(1)) == (1, 2, 1, -1)
assert dist.get_group(1) is pair and pair.is_member() == (rank != 1) == (pair.rank >= 0)
assert dist.get_world_size(pair) == (-1 if rank == 1 else 2) and dist.get_rank(pair) == [0, -1, 1][rank]
x = tensor()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    dist.all_reduce(x, group=pair)
    dist.broadcast(x, 2, group=pair)
assert (len(told) == 2) == (rank == 1)
assert np.array_equal(x.numpy(), own(1) if rank == 1 else own(0) + own(2))
try:
    dist.broadcast(x, 1, group=pair)
    assert rank == 1
except ValueError as error:
    assert "[0, 2]" in str(error)
dist.destroy_process_group(pair)
try:
    dist.all_reduce(x, group=pair)
    raise SystemExit("a group that is gone was used")
except LookupError:
    pass
sampler = wb.io.DistributedBatchSampler(range(7), batch_size=2)
assert (sampler.nranks, sampler.local_rank) == (size, rank)
found = []
dist.all_gather_object(found, list(sampler))
assert sorted({i for share in found for batch in share for i in batch}) == list(range(7))
dist.destroy_process_group()
assert not dist.is_initialized()
print("all well")
"""

LATE = """
import sys, time
from datetime import timedelta
import workbench as wb
from workbench import distributed as dist

dist.init_parallel_env()
rank = dist.get_rank()
slow = dist.new_group([0, 1], timeout=timedelta(seconds=0.3))
if rank == 1:
    objects = [None]
    dist.broadcast_object_list(objects, 0)       # comes when rank 0 has given up waiting
    print(objects[0])
    dist.all_reduce(wb.ones([3]), group=slow)
else:
    ones = wb.ones([3])
    task = dist.all_reduce(ones, group=slow, sync_op=False)
    try:
        task.wait()
    except TimeoutError as error:
        assert error.ranks == (1,)
        dist.broadcast_object_list([str(error)], 0)
    else:
        raise SystemExit("nobody was late")
    task.wait(timeout=60)                        # whoever is late may still come
    assert ones.tolist() == [2.0, 2.0, 2.0]
"""


@pytest.mark.processes
def test_every_exchange_among_three_processes() -> None:
    job = run_ranks(EXCHANGES, ranks=3, timeout=120)
    assert job.code == 0 and job.outputs == ["all well\n"] * 3, str(job)


@pytest.mark.processes
def test_promise_p2_the_time_of_a_group_is_its_deadline_and_who_is_late_is_named() -> None:
    job = run_ranks(LATE, ranks=2, timeout=120)
    assert job.code == 0, str(job)
    assert "all_reduce (float32[3], sum): not done within 0.3 s, waiting for rank 1" in job.outputs[1]


@pytest.fixture
def alone() -> Iterator[None]:
    with pytest.warns(UserWarning, match="started alone"):  # rule D-21
        assert dist.init_parallel_env() is None
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_process_that_is_alone_exchanges_with_itself() -> None:
    x = wb.to_tensor([1.0, 2.0])
    dist.all_reduce(x)
    dist.reduce(x, 0)
    dist.broadcast(x, 0)
    received: list[Any] = []
    dist.all_gather(received, x)
    dist.alltoall([wb.to_tensor([5.0])], received)
    y = wb.zeros([2])
    dist.scatter(y, [x])
    z = wb.zeros([2])
    dist.reduce_scatter(z, [y])
    dist.barrier()
    objects: list[Any] = []
    dist.all_gather_object(objects, {"a": 1})
    assert x.tolist() == y.tolist() == z.tolist() == [1.0, 2.0] and objects == [{"a": 1}]
    assert [t.tolist() for t in received] == [[1.0, 2.0], [5.0]]
    part = dist.new_group([0], timeout=timedelta(seconds=3))
    assert part.process_group.timeout == 3.0 and dist.all_reduce(x, group=part) is not None


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: dist.all_reduce(np.ones(2)), InvalidType, "takes a dense Tensor, got ndarray"),
        (lambda: dist.all_reduce(wb.ones([2]), op=9), InvalidArgument, "ReduceOp"),
        (lambda: dist.broadcast(wb.ones([2]), 1), InvalidArgument, r"src .* one of \[0\], got 1"),
        (lambda: dist.all_gather((), wb.ones([2])), InvalidType, "tensor_list is a list"),
        (lambda: dist.reduce_scatter(wb.ones([2]), []), InvalidArgument, "one tensor for every member: 1, got 0"),
        (lambda: dist.new_group([0, 1]), InvalidArgument, "different ranks below 1"),
        (lambda: dist.new_group([0], timeout=3), InvalidType, "timedelta"),
        (lambda: dist.new_group([0], timeout=timedelta(0)), InvalidArgument, "positive"),
        (lambda: dist.new_group([0], backend="nccl"), InvalidArgument, "'nccl'"),
        (lambda: dist.get_group(99), NotFound, "99"),
        (lambda: dist.send(wb.ones([2]), 0), InvalidArgument, "no other process"),
        (lambda: dist.batch_isend_irecv([]), InvalidArgument, "none"),
        (lambda: dist.batch_isend_irecv([wb.ones([1])]), InvalidType, "P2POp"),
        (lambda: dist.all_gather_object([], object()), InvalidType, "builtins.object"),
        (lambda: dist.all_reduce(wb.ones([2]), group=0), InvalidType, "new_group"),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        call()


def test_split_is_refused_in_both_modes() -> None:
    with pytest.raises(ValueError, match="static mode"):
        dist.split(wb.ones([2, 3]), (3, 4), "linear")
    with pytest.raises(InvalidArgument, match="'conv'"):
        dist.split(wb.ones([2, 3]), (3, 4), "conv")
    wb.enable_static()
    try:
        with pytest.raises(NotImplementedError, match="within a layer"):
            dist.split(None, (3, 4), "linear")
    finally:
        wb.disable_static()


def test_nothing_is_exchanged_before_the_processes_are_connected() -> None:
    with pytest.raises(PreconditionNotMet, match="init_parallel_env"):
        dist.all_reduce(wb.ones([2]))


def test_objects_come_out_as_they_went_in() -> None:
    given = {"a": [1, 2.5, None, True, "ü"], "b": (np.float16([[1, 2]]), np.int8(3)), 7: {}, "$x": float("-inf")}
    result = decoded(encoded(given))
    assert result["a"] == given["a"] and result[7] == {} and result["$x"] == float("-inf")
    assert result["b"][0].dtype == np.float16 and result["b"][0].tolist() == [[1.0, 2.0]] and result["b"][1] == 3
    assert isinstance(result["b"], tuple)


def test_rule_d_20_the_environment_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    env = dist.ParallelEnv()
    assert (env.rank, env.world_size, env.device_id, env.nrings, env.trainer_endpoints) == (0, 1, 0, 1, [])
    variables = {
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINERS_NUM": "2",
        "FLAGS_selected_gpus": "3,4",
        "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2",
        "PADDLE_CURRENT_ENDPOINT": "b:2",
        "FLAGS_nccl_nrings": "8",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    env = dist.ParallelEnv()
    assert (env.rank, env.local_rank, env.world_size, env.nranks, env.device_id, env.dev_id) == (1, 1, 2, 2, 3, 3)
    assert (env.trainer_endpoints, env.current_endpoint, env.nrings) == (["a:1", "b:2"], "b:2", 8)
    assert (dist.get_rank(), dist.get_world_size()) == (1, 2)
    monkeypatch.setenv("FLAGS_nccl_nrings", "9")
    with pytest.raises(InvalidArgument, match="1 to 8, got 9"):
        dist.ParallelEnv()


@pytest.mark.processes
def test_rule_d_21_processes_that_mpi_did_not_start_are_refused_with_both_values() -> None:
    """As torchrun starts them, for one."""
    require_mpi()
    script = """
import os
os.environ.update(RANK="1", WORLD_SIZE="2")
from workbench import distributed as dist
try:
    dist.init_parallel_env()
except RuntimeError as error:
    print(error)
"""
    library = Path(str(launcher_path())).parents[1] / "lib"  # where mpi4py finds its MPI
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True, env=environment
    ).stdout
    assert "according to torchrun this is process 1 of 2, but MPI sees 1 process" in told

"""Tensors of a scope: their storage stays while shape and dtype do, and every change is counted once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.runtime.storage import common_memory
from workbench.runtime.storage import tensor as tensor_module
from workbench.runtime.storage.bucket import Bucket
from workbench.runtime.storage.common_memory import share_memory
from workbench.runtime.storage.scope import Scope
from workbench.runtime.storage.tensor import LoDTensor, moves
from workbench.runtime.undisturbed import Call, in_one_call


@pytest.fixture(params=["alone", "in a bucket"])
def tensor(request: pytest.FixtureRequest) -> LoDTensor:
    tensor = LoDTensor(np.arange(6.0).reshape(2, 3))
    if request.param == "in a bucket":
        Bucket([LoDTensor(np.zeros(5)), tensor])
    return tensor


def test_a_value_of_the_same_kind_goes_into_the_same_storage(tensor: LoDTensor) -> None:
    storage, version, counts = tensor.array, tensor.version, (tensor.generation, moves.count)
    new = np.ones((2, 3))
    tensor.set(new)
    new += 1
    assert tensor.array is storage and storage.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert tensor.version != version and (tensor.generation, moves.count) == counts


@pytest.mark.parametrize("new", [np.ones((3, 2)), np.ones((2, 3), np.float32)])
def test_another_one_gets_storage_of_its_own(tensor: LoDTensor, new: np.ndarray) -> None:
    storage, version, generation, before = tensor.array, tensor.version, tensor.generation, moves.count
    tensor.set(new)
    assert tensor.array is not storage and tensor.array is not new and tensor.bucket is None
    assert tensor.array.shape == new.shape and tensor.dtype.numpy == new.dtype
    assert tensor.version != version and tensor.generation == generation + 1 and moves.count > before


def test_every_change_has_a_version_of_its_own_whichever_way_it_comes(tensor: LoDTensor) -> None:
    versions = {tensor.version}
    for count, new in enumerate((np.ones((2, 3)), np.ones((3, 2)), np.ones((3, 2), np.float32)), 2):
        in_one_call(tensor.setting(new))
        versions.add(tensor.version)
        assert len(versions) == count and tensor.array is not new and tensor.array.tolist() == new.tolist()


@pytest.mark.parametrize("new", [np.ones((2, 3)), np.ones((3, 2))])
def test_two_who_write_at_the_same_time_do_not_leave_the_same_version(tensor: LoDTensor, new: np.ndarray) -> None:
    bucket, seen = tensor.bucket, [(tensor.version, tensor.bucket and tensor.bucket.writes)]
    for calls in [tensor.taking(value) for value in (new, new + 1)]:  # both have begun before one writes
        in_one_call(calls)
        seen.append((tensor.version, bucket and bucket.writes))
    assert len({version for version, _ in seen}) == 3
    if bucket is not None and tensor.bucket is bucket:
        assert len({writes for _, writes in seen}) == 3


def test_steps_of_a_bucket_do_not_come_to_the_number_of_a_later_write() -> None:
    tensor = LoDTensor(np.zeros(2))
    tensor.set(np.ones(2))
    bucket, seen = Bucket([tensor]), set()
    for _ in range(100):
        seen.add(tensor.version)
        bucket.counter += 1
    tensor.set(np.zeros(3))  # it leaves the bucket
    for _ in range(100):
        assert tensor.version not in seen
        tensor.set(np.zeros(3))


def test_a_change_of_a_whole_bucket_counts_for_each_member() -> None:
    tensors = [LoDTensor(np.zeros(2)), LoDTensor(np.zeros(3))]
    bucket = Bucket(tensors)
    before, writes = [t.version for t in tensors], bucket.writes
    bucket.counter += 1
    assert [t.version for t in tensors] == [n + 1 for n in before] and bucket.writes == writes
    tensors[0].set(np.ones(2))
    assert tensors[0].version not in (before[0], before[0] + 1) and tensors[1].version == before[1] + 1
    assert bucket.writes != writes


@pytest.mark.parametrize("which", [0, 1])
def test_a_value_is_not_lost_if_the_tensor_is_moved_while_it_is_set(
    which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = [LoDTensor(np.zeros(3)) for _ in range(2)]
    buckets = [Bucket([tensor]) for tensor in tensors]

    def join_first(calls: Sequence[Call]) -> Any:
        monkeypatch.undo()
        share_memory(buckets, [0, 0])
        return in_one_call(calls)

    monkeypatch.setattr(tensor_module, "in_one_call", join_first)
    tensors[which].set(np.ones(3))
    assert [tensor.array.tolist() for tensor in tensors] == [[float(n == which)] * 3 for n in range(2)]


def test_a_value_is_not_lost_if_it_is_set_while_the_tensor_moves_into_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = LoDTensor(np.zeros(3))

    def set_first(calls: Sequence[Call]) -> Any:
        monkeypatch.undo()
        tensor.set(np.ones(3))
        return in_one_call(calls)

    monkeypatch.setattr(tensor_module, "in_one_call", set_first)
    bucket = Bucket([tensor])
    assert tensor.array is bucket.views[0] and tensor.array.tolist() == [1, 1, 1]


def test_a_value_is_not_lost_if_it_is_set_in_a_step_while_memory_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    scope, (first, second) = Scope(), (LoDTensor(np.zeros(3)) for _ in range(2))
    buckets = [Bucket([tensor], scope) for tensor in (first, second)]
    assert share_memory(buckets, [bucket.writes for bucket in buckets])

    def set_first(calls: Sequence[Call]) -> Any:
        monkeypatch.undo()
        with scope.lock:
            scope.step = SimpleNamespace(is_in_the_middle=True)
            second.set(np.ones(3))
            scope.step = None
        return in_one_call(calls)

    monkeypatch.setattr(common_memory, "in_one_call", set_first)
    buckets[0].part()
    assert (first.array.tolist(), second.array.tolist(), second.bucket) == ([0, 0, 0], [1, 1, 1], None)
    assert first.bucket.common is buckets[1].common is None


def test_a_copy_belongs_to_nobody(tensor: LoDTensor) -> None:
    other = copy.deepcopy(tensor)
    other.set(np.zeros((2, 3)))
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]] and other.bucket is None

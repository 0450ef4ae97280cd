"""Python objects among processes: they travel as JSON and arrays, never pickled."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from workbench.checkpoint.tree import flatten, unflatten
from workbench.errors import InvalidArgument
from workbench.framework.values.dtype import as_dtype
from workbench.parallel.groups.collectives import require_list, root_of
from workbench.parallel.groups.group import Group, members_of


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """Every process gets the objects of all, in the order of their ranks, added to `object_list`.

    Args:
        obj: None, numbers, strings, arrays, tensors, and dicts, lists and tuples of those.

    Raises:
        InvalidType: an object of another kind, naming its place. PeerTimeout, PeerFailed: see `CommTask.wait`.
    """
    among = members_of(group)
    if among is None:
        return
    require_list(object_list, "object_list")
    data = encoded(obj)
    sizes = among.process_group.all_gather(np.array([data.size])).wait()
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: data.size] = data
    rows = among.process_group.all_gather(padded).wait()
    object_list.extend(decoded(row[:size]) for row, (size,) in zip(rows, sizes, strict=True))


def broadcast_object_list(object_list: list[Any], src: int, group: Group | None = None) -> None:
    """The objects of the process whose rank in the world is `src` take the place of everybody's.

    Raises:
        InvalidType: see `all_gather_object`. InvalidArgument: lists of different lengths.
    """
    among = members_of(group)
    if among is None:
        return
    require_list(object_list, "object_list")
    objects = _from_root(among, root_of(among, src, "src"), object_list)
    if len(objects) != len(object_list):
        raise InvalidArgument(f"object_list has {len(object_list)} places for {len(objects)} objects of rank {src}")
    object_list[:] = objects


def scatter_object_list(
    out_object_list: list[Any], in_object_list: list[Any] | None = None, src: int = 0, group: Group | None = None
) -> None:
    """`out_object_list` becomes the object at this process's rank in the list of the process `src`."""
    among = members_of(group)
    if among is None:
        return
    require_list(out_object_list, "out_object_list")
    objects = _from_root(among, root_of(among, src, "src"), in_object_list)
    if not isinstance(objects, list) or len(objects) != among.nranks:
        raise InvalidArgument(f"in_object_list of rank {src} has one object for every member: {among.nranks}")
    out_object_list[:] = [objects[among.rank]]


def _from_root(group: Group, root: int, obj: Any) -> Any:
    own = root == group.rank
    data = encoded(obj) if own else np.empty(0, np.uint8)
    size = np.array([data.size])
    group.process_group.broadcast(size, root).wait()
    if not own:
        data = np.empty(int(size[0]), np.uint8)
    group.process_group.broadcast(data, root).wait()
    return obj if own else decoded(data)


def encoded(obj: Any) -> np.ndarray:
    """An object as bytes: the length of a JSON text, the text, and the bytes of its arrays.

    Raises:
        InvalidType: it holds something that is no data, naming its place.
    """
    structure, arrays = flatten(obj)
    forms = [[name, str(as_dtype(a.dtype)).rpartition(".")[2], list(a.shape)] for name, a in arrays.items()]
    text = json.dumps([structure, forms]).encode()
    parts = [np.array([len(text)], np.int64).tobytes(), text, *(a.tobytes() for a in arrays.values())]
    return np.frombuffer(b"".join(parts), np.uint8).copy()


def decoded(data: np.ndarray) -> Any:
    """The object `encoded` was given; its arrays and tensors have memory of their own."""
    body = data.tobytes()
    start = 8 + int(np.frombuffer(body[:8], np.int64)[0])
    structure, forms = json.loads(body[8:start])
    arrays = {}
    for name, dtype, shape in forms:
        kind = as_dtype(dtype).numpy
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, kind, count, start).reshape(shape).copy()
        start += arrays[name].nbytes
    return unflatten(structure, arrays)

"""Messages: what goes in comes out, and what is no message is refused before anything is made of it."""

from __future__ import annotations

import json
import random
from zlib import crc32

import ml_dtypes
import numpy as np
import pytest

from tests.servers.loopback import Asked
from workbench.errors import InvalidArgument
from workbench.runtime.servers.messages import MAX_HEAD, PREFIX, Message, decoded, decoded_head, encoded

ARRAYS = {
    "w@GRAD.block0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "ids": np.array([2, 0, 2**40]),
    "half": np.array([1.5], np.float16),
    "brain": np.array([2.5, -1], ml_dtypes.bfloat16),
    "none": np.zeros((0, 4), np.float32),
    "one": np.float64(3.25).reshape(()),
    "yes": np.array([True, False]),
}
FRAME = Message("step", {"trainer": 1, "sequence": 7, "pull": ["w", "b"]}, ARRAYS)


def test_what_goes_in_comes_out() -> None:
    frame = decoded(encoded(FRAME))
    assert (frame.kind, frame.fields) == (FRAME.kind, FRAME.fields) and list(frame.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        got = frame.arrays[name]
        assert (got.dtype, got.shape, got.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert not got.flags.writeable


def test_arrays_that_do_not_lie_in_one_piece_travel() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    assert np.array_equal(decoded(encoded(Message("k", {}, {"a": array}))).arrays["a"], array)


def _with_head(document: object, body: bytes = b"") -> bytes:
    head = json.dumps(document).encode()
    return PREFIX.pack(b"WBPS", len(head), crc32(head)) + head + body


REFUSED = {
    "nothing": b"",
    "another beginning": b"HTTP" + encoded(FRAME)[4:],
    "cut in the head": encoded(FRAME)[:40],
    "cut in an array": encoded(FRAME)[:-1],
    "too long": encoded(FRAME) + b"x",
    "a huge head": PREFIX.pack(b"WBPS", MAX_HEAD + 1, 0) + b"x",
    "damaged": encoded(FRAME).replace(b"trainer", b"trailer"),
    "no list": _with_head({"kind": "step"}),
    "no kind": _with_head([3, {}, []]),
    "no fields": _with_head(["step", [], []]),
    "an array without a shape": _with_head(["step", {}, [["w", "float32"]]]),
    "objects": _with_head(["step", {}, [["w", "object", [1]]]], b"12345678"),
    "a negative size": _with_head(["step", {}, [["w", "float32", [-1]]]]),
    "a size that is no int": _with_head(["step", {}, [["w", "float32", [True]]]], b"1234"),
    "a huge size": _with_head(["step", {}, [["w", "float32", [1 << 40]]]]),
    "many sizes": _with_head(["step", {}, [["w", "float32", [1] * 17]]], b"1234"),
    "a name twice": _with_head(["step", {}, [["w", "int8", [1]], ["w", "int8", [1]]]], b"12"),
    "an empty array of huge sizes": _with_head(["step", {}, [["w", "float32", [0, 1 << 30, 1 << 30, 1 << 30]]]]),
    "a list in a field": _with_head(["step", {"pull": [["w"]]}, []]),
    "an object in a field": _with_head(["step", {"pull": {"w": 1}}, []]),
    "a field that is no number": _with_head(["step", {"sequence": float("nan")}, []]),
    "deep": PREFIX.pack(b"WBPS", 200_000, crc32(b"[" * 200_000)) + b"[" * 200_000,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        decoded(data)


def test_sizes_are_checked_before_memory_is_taken() -> None:
    with pytest.raises(InvalidArgument, match="at most 100 are taken"):
        decoded_head(_with_head(["step", {}, [["w", "float32", [1 << 20, 1 << 8]]]]), most=100)


def test_what_does_not_travel_is_refused_by_the_sender() -> None:
    with pytest.raises(InvalidArgument, match="'w' of dtype complex64"):
        encoded(Message("step", {}, {"w": np.zeros(1, np.complex64)}))


def test_ten_thousand_damaged_messages_are_refused() -> None:
    whole, chance = encoded(FRAME), random.Random(3)
    head = decoded_head(whole)[1]
    for _ in range(10_000):
        data = bytearray(whole)
        match chance.randrange(4):
            case 0:
                data[chance.randrange(head)] ^= 1 << chance.randrange(8)
            case 1:
                del data[chance.randrange(len(data)) :]
            case 2:
                data += chance.randbytes(chance.randrange(1, 30))
            case _:
                start = chance.randrange(head)
                data[start : start + 8] = chance.randbytes(9)
        with pytest.raises(InvalidArgument):
            decoded(bytes(data))


@pytest.mark.parametrize("value", [None, -1, 1.0, True, "1", 1 << 63])
def test_a_field_is_the_number_it_should_be(value: object) -> None:
    with pytest.raises(InvalidArgument, match="sequence is a whole number from 0 on"):
        Message("step", {"sequence": value}).number("sequence")


def test_a_value_is_told_by_its_beginning() -> None:
    with pytest.raises(InvalidArgument) as raised:
        Message("x" * 10_000, {"sequence": "y" * 10_000}).number("sequence")
    assert len(str(raised.value)) < 500


def test_a_reason_is_never_too_long_to_be_sent() -> None:
    asked = Asked(Message("step"))
    asked.refuse(InvalidArgument("\u2028" * MAX_HEAD))
    assert len(encoded(asked.frames[0])) < 100_000


@pytest.mark.parametrize("value", ["w", [1], ["w", "w"], {"w": 1}])
def test_a_field_is_the_list_of_names_it_should_be(value: object) -> None:
    with pytest.raises(InvalidArgument, match="pull is a list of different names"):
        Message("step", {"pull": value}).names("pull")

"""Tensor files and documents: round trips, what is refused, and that damage never passes for data."""

import json
import math
import os
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from workbench.checkpoint.files import DTYPES, read_json, read_tensors, write_json, write_tensors
from workbench.errors import InvalidArgument

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda n: n != "__metadata__")
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of every supported dtype, any bits (NaN payloads too), any memory layout."""
    dtype = draw(st.sampled_from(sorted(DTYPES.values(), key=str)))
    shape = draw(shapes)
    size = math.prod(shape) * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    array = (raw & 1 if dtype == np.bool_ else raw).view(dtype).reshape(shape)
    layout = draw(st.sampled_from(["C", "F", "strided", "reversed"]))
    if layout == "F":
        return np.asfortranarray(array) if array.ndim else array
    if layout == "strided" and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if layout == "reversed" and array.ndim:
        return array[::-1]
    return array


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert got.tobytes() == np.asarray(expected, order="C").tobytes()


@given(st.dictionaries(names, arrays(), max_size=5), st.dictionaries(st.text(), json_values, max_size=4))
@quick
def test_tensors_come_back_bit_for_bit(
    tmp_path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, Any]
) -> None:
    path = tmp_path / "model.wbparams"
    write_tensors(path, tensors, metadata)
    loaded, note = read_tensors(path)
    assert loaded.keys() == tensors.keys()
    assert note == metadata
    for name, array in tensors.items():
        assert_same_bits(loaded[name], array)
        assert loaded[name].flags.writeable and loaded[name].flags.c_contiguous


@given(json_values)
@quick
def test_documents_come_back(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "model.json"
    write_json(path, document, "test")
    assert read_json(path, "test") == document
    assert json.loads(path.read_text())["content"] == document


def test_other_libraries_read_our_tensor_files(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"w": np.arange(6.0).reshape(2, 3)}, {"a": 1})
    assert safetensors.numpy.load_file(path)["w"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    tensors = {f"t{i}": np.full(i, i, np.float32) for i in range(20)}
    write_tensors(tmp_path / "a", tensors)
    write_tensors(tmp_path / "b", dict(reversed(tensors.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_values_of_other_byte_order_and_kind(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_tensors(path, {"big": np.arange(3, dtype=">i4"), "scalar": np.float32(2.5), "list": [1, 2]})
    loaded, metadata = read_tensors(path)
    assert loaded["big"].dtype == np.dtype("i4") and loaded["big"].tolist() == [0, 1, 2]
    assert loaded["scalar"].shape == () and loaded["scalar"] == 2.5
    assert loaded["list"].tolist() == [1, 2]
    assert metadata == {}


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ({"w": np.array(["a"])}, "tensor 'w' has dtype <U1"),
        ({"w": np.array([None])}, "tensor 'w' has dtype object"),
        ({"w": np.zeros(2, np.complex128)}, "complex128, which cannot be saved; dtypes are bfloat16, bool, .*uint8"),
        ({"w": np.zeros(2, ml_dtypes.float8_e4m3fn)}, "float8_e4m3fn"),
        ({"w": np.zeros(2, [("a", "f4")])}, "cannot be saved"),
        ({3: np.zeros(2)}, "tensor names are strings, got 3"),
        ({"\ud800": np.zeros(2)}, "no valid Unicode"),
        ({"__metadata__": np.zeros(2)}, "reserves it"),
    ],
)
def test_tensors_that_cannot_be_saved(tmp_path: Path, tensors: dict[Any, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        write_tensors(tmp_path / "x", tensors)
    assert list(tmp_path.iterdir()) == []


def test_names_and_metadata_that_no_reader_would_take_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.checkpoint.files._LARGEST_HEADER", 1000)
    with pytest.raises(InvalidArgument, match="more than 1000 bytes"):
        write_tensors(tmp_path / "x", {"w": np.zeros(2)}, {"note": "n" * 1000})
    assert list(tmp_path.iterdir()) == []


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"a": [0, {"b": math.nan}]}, r"document\['a'\]\[1\]\['b'\] is nan"),
        ([math.inf], r"document\[0\] is inf"),
        ({"a": {1: 2}}, r"document\['a'\] has the key 1: keys of saved documents are strings"),
        ({"a": np.float32(1)}, r"document\['a'\] is a float32"),
        ({"a": {1, 2}}, "is a set"),
        (b"bytes", "document is a bytes"),
        (nested(100_000), "nested too deeply"),
    ],
)
def test_documents_that_json_does_not_have(tmp_path: Path, document: Any, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        write_json(tmp_path / "x", document, "test")
    assert list(tmp_path.iterdir()) == []
    if not isinstance(document, bytes):
        with pytest.raises(InvalidArgument):
            write_tensors(tmp_path / "x", {}, {"m": document})


# Damage


@pytest.fixture(params=["tensors", "document"])
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A small file and the function that reads it."""
    path = tmp_path / "saved"
    if request.param == "tensors":
        tensors = {
            "w": np.arange(6, dtype=np.float32).reshape(2, 3),
            "empty": np.zeros((0, 3)),
            "n": np.int64(1),
        }
        write_tensors(path, tensors, {"lr": {"last_epoch": 3}})
        return path, read_tensors
    write_json(path, {"ops": [{"type": "mul", "attrs": {"x": 1.5}}]}, "program")
    return path, lambda path: read_json(path, "program")


def test_every_truncation_is_refused(sample: tuple[Path, Any]) -> None:
    path, read = sample
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidArgument, match=str(path)) as caught:
            read(path)
        assert any(word in str(caught.value) for word in ("truncated", "empty", "is not a")), str(caught.value)
    path.write_bytes(whole[: len(whole) - 1])
    with pytest.raises(InvalidArgument, match=f"only {len(whole) - 1} of {len(whole)} bytes"):
        read(path)


def test_every_changed_byte_is_refused(sample: tuple[Path, Any]) -> None:
    """Each byte in turn: every bit flipped, and some other values."""
    path, read = sample
    whole = path.read_bytes()
    generator = random.Random(0)
    with path.open("r+b", buffering=0) as file:
        for position, old in enumerate(whole):
            values = {old ^ (1 << bit) for bit in range(8)} | {generator.randrange(256), 10, 32}
            for value in values - {old}:
                os.pwrite(file.fileno(), bytes([value]), position)
                with pytest.raises(InvalidArgument, match=str(path)):
                    read(path)
            os.pwrite(file.fileno(), bytes([old]), position)
    read(path)


def test_additions_removals_and_swaps_are_refused(sample: tuple[Path, Any]) -> None:
    path, read = sample
    whole = path.read_bytes()
    generator = random.Random(1)
    changed = [whole + b"\n", whole + whole, b" " + whole, whole[1:]]
    for _ in range(100):
        a, b = sorted(generator.sample(range(len(whole) + 1), 2))
        changed.append(whole[:a] + whole[b:])
        changed.append(whole[:a] + generator.randbytes(b - a) + whole[b:])
        changed.append(whole[:a] + bytes(b - a) + whole[b:])
    for blob in changed:
        if blob == whole:
            continue
        path.write_bytes(blob)
        with pytest.raises(InvalidArgument, match=str(path)):
            read(path)


def test_a_changed_value_in_a_large_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    write_tensors(path, {"w": np.zeros(1 << 20, np.float32)})
    with path.open("r+b") as file:
        file.seek(3 << 20)
        file.write(b"\1")
    with pytest.raises(InvalidArgument, match="does not match its SHA-256 checksum"):
        read_tensors(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    safetensors.numpy.save_file({"w": np.zeros(2)}, path)
    with pytest.raises(InvalidArgument, match="is not a workbench tensor file"):
        read_tensors(path)
    path.write_bytes(b"PK\3\4 this is a zip file, or a pickle")
    with pytest.raises(InvalidArgument, match="is not a workbench tensor file"):
        read_tensors(path)
    with pytest.raises(InvalidArgument, match="is not a workbench document"):
        read_json(path, "program")
    write_json(path, {}, "run")
    with pytest.raises(InvalidArgument, match="is a 'run' document; expected 'program'"):
        read_json(path, "program")
    with pytest.raises(InvalidArgument, match="is not a workbench tensor file"):
        read_tensors(path)


def test_other_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, document = tmp_path / "t", tmp_path / "d"
    with monkeypatch.context() as patch:
        patch.setattr("workbench.checkpoint.files.VERSION", 2)
        write_tensors(tensors, {"w": np.zeros(2)})
        write_json(document, {}, "program")
    for read in (lambda: read_tensors(tensors), lambda: read_json(document, "program")):
        with pytest.raises(InvalidArgument, match="has format version 2; this workbench reads version 1"):
            read()

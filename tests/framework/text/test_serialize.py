"""Programs as JSON: everything comes back, nothing wrong comes in."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.framework import toys
from tests.framework.models import built, data, everything, nested, parameter, trained
from tests.framework.programs import ToyDecay, programs
from tests.framework.toys import toys_declared
from workbench.errors import AlreadyExists, EnforceNotMet, InvalidArgument, InvalidType, NotFound
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import problems
from workbench.framework.program.variable import Parameter
from workbench.framework.text.serialize import program_from_dict, program_from_json, program_to_dict, program_to_json

relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@given(programs())
@relaxed
def test_any_program_comes_back(program: Program) -> None:
    text = program_to_json(program)
    read = program_from_json(text)
    assert program_to_json(read) == text
    assert str(read) == str(program)


@pytest.mark.parametrize("make", [everything, nested])
def test_a_built_program_comes_back(make: object) -> None:
    make()  # type: ignore[operator]
    program = default_main_program()
    read = Program.parse_from_string(program.serialize_to_string())
    assert str(read) == str(program) and problems(read) == []
    assert read.uid != program.uid


def test_every_field_comes_back() -> None:
    program = default_main_program()
    program.name, program.random_seed = "net", 5
    w = parameter(
        "w", (2, 3), trainable=False, need_clip=False, regularizer=ToyDecay(0.1), optimize_attr={"learning_rate": 2}
    )
    x = data("x", (-1, 2))
    toys.dropout(toys.mul(x, w))
    program.lr_schedulers["w"] = ToyDecay(0.5, plan=(1, 2))
    program.attributes["k"] = [1]
    read = program_from_json(program_to_json(program, with_sites=True))
    again = read.global_block().var("w")
    assert isinstance(again, Parameter)
    assert (again.trainable, again.need_clip, again.optimize_attr) == (False, False, {"learning_rate": 2})
    assert again.regularizer.coeff == 0.1 and again.site == w.site
    assert (read.name, read.random_seed, read.streams, read.attributes) == ("net", 5, 1, {"k": [1]})
    assert read.lr_schedulers["w"].plan == (1, 2)
    assert [op.site for op in read.all_ops()] == [op.site for op in program.all_ops()]
    assert read.next_stream() == program.next_stream()
    feed = read.global_block().var("x")
    assert feed.is_data and feed.need_check_feed and feed.stop_gradient and feed.shape == (-1, 2)


def test_places_in_the_users_code_stay_out_unless_asked_for() -> None:
    trained().lr_schedulers.clear()
    assert __file__ not in program_to_json(default_main_program()) and "models.py" not in program_to_json(
        default_main_program()
    )
    assert "models.py" in program_to_json(default_main_program(), with_sites=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint8", "bool"])
def test_arrays_keep_every_bit(dtype: str) -> None:
    from workbench.framework.values.dtype import as_dtype

    raw = (
        np.random.default_rng(0).integers(0, 2, 48, np.uint8) if dtype == "bool" else np.arange(48, dtype=np.uint8) * 5
    )
    array = raw.view(as_dtype(dtype).numpy).reshape(2, -1)[:, ::2]
    toys.anything(value=array)
    read = program_from_json(program_to_json(default_main_program())).global_block().ops[0].attrs["value"]
    assert read.dtype == array.dtype and read.shape == array.shape and read.tobytes() == array.tobytes()
    read[...] = 0  # it owns its memory


def test_equal_programs_give_equal_text() -> None:
    first, second = program_to_json(built(everything)), program_to_json(built(everything))
    assert first == second


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (print, "builtin_function_or_method, which cannot be saved"),
        (np.array([1j]), "array of complex128"),
        ({1: 2}, "the key 1"),
        (b"bytes", "bytes, which cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_named(value: object, message: str) -> None:
    toys.anything(value=[value])
    with pytest.raises(InvalidArgument, match=f"attribute 'value' of operator 0 \\(toy_any\\) of block 0 .*{message}"):
        program_to_json(default_main_program())


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    toys.anything(value=endless)
    with pytest.raises(InvalidArgument, match="nested more than 64 deep"):
        program_to_json(default_main_program())


def test_a_scheduler_that_cannot_be_saved_is_named() -> None:
    trained()
    with pytest.raises(InvalidArgument, match=r"the learning-rate scheduler of 'learning_rate_0' holds a .*Schedule"):
        program_to_json(default_main_program())


# What is refused


def document() -> dict[str, Any]:
    with toys_declared():
        document = program_to_dict(built(everything))
    assert json.loads(json.dumps(document)) == document
    return document


DOCUMENT = document()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", '"x"', b"\xff\xfe\x00", "{} {}", '{"format": NaN}', "[" * 10**5]
)
def test_what_is_no_program_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidArgument):
        program_from_json(text)


def test_a_truncated_file_is_refused_wherever_it_ends() -> None:
    text = json.dumps(DOCUMENT)
    for end in range(0, len(text), 97):
        with pytest.raises(InvalidArgument, match="not a program: the text is not JSON"):
            program_from_json(text[:end])


def test_a_key_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'version' occurs twice"):
        program_from_json(json.dumps(DOCUMENT).replace('"version": 1', '"version": 1, "version": 1'))


DELETE = object()


@pytest.mark.parametrize(
    ("path", "value", "error", "message"),
    [
        ("format", "other", InvalidArgument, 'program: not a program: expected "format": "workbench.program"'),
        ("version", 2, InvalidArgument, "version 2 is not known; this release reads version 1"),
        ("version", True, InvalidArgument, "version True is not known"),
        ("name", DELETE, InvalidArgument, "program: the field 'name' is missing"),
        ("extra", 1, InvalidArgument, "program: there is no field 'extra'"),
        ("random_seed", "1", InvalidType, "program.random_seed: expected an integer, got '1'"),
        ("random_seed", 2**70, InvalidArgument, "at most 64 bits"),
        ("streams", -1, InvalidArgument, "streams is >= 0"),
        ("rng_step", "gone", NotFound, "program: variable 'gone' is not declared"),
        ("lr_schedulers", {"gone": None}, NotFound, "program: variable 'gone' is not declared"),
        ("blocks", [], InvalidArgument, "program.blocks: a program has 1 to 10000 blocks"),
        ("blocks.0.parent", 0, InvalidArgument, r"program.blocks\[0\].parent: the parent of block 0"),
        ("blocks.0.inputs", ["gone"], NotFound, "program: block 0 has no variable 'gone'"),
        ("blocks.0.inputs", [1], InvalidType, r"blocks\[0\].inputs: expected a list of strings"),
        ("blocks.0.variables.0.name", "fc_0.w_0", AlreadyExists, r"variables\[1\]: block 0 declares .* twice"),
        ("blocks.0.variables.0.shape", [-2], InvalidArgument, r"variables\[0\]: a dimension is >= 0"),
        ("blocks.0.variables.0.shape", [1.5], InvalidType, r"variables\[0\].shape\[0\]: expected an integer"),
        ("blocks.0.variables.0.shape", [2**40, 2**40], InvalidArgument, r"variables\[0\]: .*too large"),
        ("blocks.0.variables.0.shape", [1] * 99, InvalidArgument, "at most 32 dimensions"),
        ("blocks.0.variables.0.dtype", "float", InvalidType, "write 'float32'"),
        ("blocks.0.variables.0.kind", "sparse", InvalidArgument, "'sparse' is no kind of variable"),
        ("blocks.0.variables.0.parameter", 1, InvalidType, "parameter: expected true or false"),
        ("blocks.0.variables.0.flags", {"fast": True}, NotFound, "has no flag 'fast'"),
        ("blocks.0.variables.0.flags.data", None, InvalidType, "data is True or False, got None"),
        ("blocks.0.variables.1.flags.optimize_attr", 3, InvalidType, "optimize_attr is a dict"),
        ("blocks.0.variables.0.site", ["a"], InvalidArgument, "site: expected a file name and a line"),
        ("blocks.0.operators.1.type", "toy_mull", NotFound, r"operators\[1\]: there is no op 'toy_mull'"),
        ("blocks.0.operators.1.inputs", {"Z": []}, NotFound, r"operators\[1\]: op 'toy_mul' has no input 'Z'"),
        ("blocks.0.operators.1.inputs.X", "x", InvalidType, r"operators\[1\].inputs.X: expected a list"),
        ("blocks.0.operators.1.inputs.X", ["y"], NotFound, r"operators\[1\]: variable 'y' is not declared"),
        ("blocks.0.operators.1.attrs", {"a": 1}, NotFound, r"operators\[1\]: op 'toy_mul' has no attribute 'a'"),
        ("blocks.0.operators.1.attrs.transpose", {"$eval": "1"}, InvalidArgument, "'\\$eval' is no kind of value"),
        ("blocks.0.operators.1.attrs.transpose", {}, InvalidArgument, "transpose: expected a value, or an object"),
        ("blocks.0.operators.1.attrs.transpose", {"$float": "1e5"}, InvalidArgument, "expected nan, inf or -inf"),
        ("blocks.0.operators.1.attrs.transpose", {"$block": 0}, InvalidArgument, "there is no inner block 0"),
        ("blocks.0.operators.1.attrs.transpose", {"$object": {"type": "Popen"}}, NotFound, "no class 'Popen'"),
        ("blocks.0.operators.1.attrs.transpose", {"$object": {}}, InvalidArgument, "'type' is missing"),
        ("blocks.0.operators.1.role", -1, InvalidArgument, r"operators\[1\]: op_role is an int"),
        ("blocks.0.operators.1.role_vars", ["x"], InvalidArgument, r"operators\[1\]: op_role_var lists pairs"),
        ("blocks.0.operators.1.role_vars", ["x", "y"], NotFound, "variable 'y' is not declared"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(path: str, value: Any, error: type, message: str) -> None:
    damaged = copy.deepcopy(DOCUMENT)
    _set(damaged, [int(key) if key.isdigit() else key for key in path.split(".")], value)
    with pytest.raises(error, match=message):
        program_from_dict(damaged)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ({"dtype": "int8", "shape": [2]}, "the field 'data' is missing"),
        ({"dtype": "int8", "shape": [2], "data": "AA=="}, "has 2 bytes, got 1"),
        ({"dtype": "int8", "shape": [2], "data": "A"}, "not base64"),
        ({"dtype": "int8", "shape": [-1], "data": ""}, "no unknown dimension"),
        ({"dtype": "int8", "shape": [2**60], "data": ""}, "too large"),
        ({"dtype": "object", "shape": [1], "data": "AAAAAAAAAAA="}, "'object' is not a dtype"),
        ({"dtype": "int8", "shape": "2", "data": ""}, "expected a list"),
    ],
)
def test_wrong_arrays(array: dict[str, Any], message: str) -> None:
    damaged = copy.deepcopy(DOCUMENT)
    damaged["blocks"][0]["operators"][1]["attrs"]["transpose"] = {"$array": array}
    with pytest.raises(InvalidArgument, match=message):
        program_from_dict(damaged)


def _set(node: Any, path: list[Any], value: Any) -> None:
    for key in path[:-1]:
        node = node[key]
    if value is DELETE:
        del node[path[-1]]
    else:
        node[path[-1]] = value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


PLACES = [list(p) for p in _places(DOCUMENT) if p]
KEYS = st.sampled_from(["$float", "$tuple", "$block", "$array", "$dict", "$object", "type", "X"])
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.just(2**80) | st.floats(allow_nan=False) | st.text(max_size=3)
    | st.sampled_from(["x", "fc_0.w_0", "toy_mul", "int8", "dense", "nan", "AAAA"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_damaged_document_is_read_or_refused(choice: st.DataObject) -> None:
    """Whatever is changed: our errors and no others, in no time; what is read can be checked, printed and saved."""
    damaged = copy.deepcopy(DOCUMENT)
    for _ in range(choice.draw(st.integers(1, 3))):
        path = choice.draw(st.sampled_from(PLACES))
        value = choice.draw(st.just(DELETE) | JUNK)
        try:
            _set(damaged, path, value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    try:
        program = program_from_dict(damaged)
    except EnforceNotMet:
        return
    assert isinstance(problems(program), list)
    assert str(program)
    assert program_to_json(program_from_json(program_to_json(program))) == program_to_json(program)


@given(st.data())
@relaxed
def test_damaged_bytes_are_read_or_refused(choice: st.DataObject) -> None:
    raw = bytearray(json.dumps(DOCUMENT).encode())
    for _ in range(choice.draw(st.integers(1, 5))):
        raw[choice.draw(st.integers(0, len(raw) - 1))] = choice.draw(st.integers(0, 255))
    with suppress(EnforceNotMet):
        assert isinstance(program_from_json(bytes(raw)), Program)

"""Reading programs back from text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.framework.models import built, everything, nested
from tests.framework.programs import programs
from tests.framework.toys import toys_declared
from workbench.errors import AlreadyExists, EnforceNotMet, InvalidArgument, InvalidType, NotFound
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import problems
from workbench.framework.text.lexicon import quote, unquote
from workbench.framework.text.parser import parse_program
from workbench.framework.text.serialize import program_to_json

relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def assert_reads_back(program: Program) -> None:
    for with_details in (False, True):
        text = program.to_string(with_details=with_details)
        read = parse_program(text)
        assert read.to_string() == program.to_string()
        assert program_to_json(read) == program_to_json(program)


@given(programs())
@relaxed
def test_any_program_reads_back(program: Program) -> None:
    assert_reads_back(program)


@pytest.mark.parametrize("make", [everything, nested])
def test_a_built_program_reads_back(make: object) -> None:
    make()  # type: ignore[operator]
    assert_reads_back(default_main_program())
    assert problems(parse_program(str(default_main_program()))) == []


def test_typed_by_hand() -> None:
    program = parse_program(
        """
        # comments and empty lines are free

        program
        block 0 {   # so is indentation
        var %x: float32[?, 4] data
            parameter %w: float32[4, 2]
          %y: float32[?, 2] = toy_mul(X=%x, Y=%w) {transpose = False}
          toy_print(X=%y)
        }"""
    )
    y = program.global_block().var("y")
    assert y.shape == (-1, 2) and not y.stop_gradient and y.op is not None
    assert y.op.attrs == {"transpose": False, "op_role": 0}
    assert problems(program) == []


def test_a_name_used_again_inside_is_declared_there() -> None:
    program, _, inner = nested()
    inner.create_var("toy_relu_0.tmp_0", (-1, 4))
    inner.insert_op(0, "toy_relu", inputs={"X": "given"}, outputs={"Out": "toy_relu_0.tmp_0"})
    assert_reads_back(program)
    read = parse_program(str(program))
    assert "toy_relu_0.tmp_0" in read.blocks[2].vars and "toy_relu_0.tmp_0" in read.global_block().vars


def wrong(body: str) -> str:
    return "program\nblock 0 {\n  var %x: float32[?, 4]\n" + body + "\n}\n"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", InvalidArgument, "line 1, column 1: expected 'program', found the end of the text"),
        (
            "program",
            InvalidArgument,
            "line 1, column 8: expected 'block', 'lr_scheduler' or 'attribute', found the end",
        ),
        ("program\nblock 0 {", InvalidArgument, "line 2, column 10: expected .*, found the end of the text"),
        ("program\nblock 1 {\n}", InvalidArgument, "line 2, column 1: expected block 0"),
        ("program\nblock 0 {\n}\nblock 1 {\n}", InvalidArgument, "line 4, column 1: expected the end of the text"),
        ("program seed=1.5\nblock 0 {\n}", InvalidArgument, "line 1, column 14: expected an integer, found '1.5'"),
        (wrong("  var %x: int8[]"), AlreadyExists, "line 4, column 3: block 0 declares variable 'x' twice"),
        (wrong("  var %y: float31[]"), InvalidType, "line 4, column 11: 'float31' is not a dtype"),
        (wrong("  var %y: float[]"), InvalidType, "line 4, column 11: 'float' is not a dtype; write 'float32'"),
        (wrong("  var %y: int8[-2]"), InvalidArgument, "line 4, column 11: a dimension is >= 0"),
        (wrong("  var %y: int8[9999999999, 9999999999]"), InvalidArgument, "line 4, column 11: .*too large"),
        (wrong("  var %y: int8[1.5]"), InvalidArgument, r"line 4, column 16: expected a dimension"),
        (wrong("  var %y: int8[2] datta"), NotFound, "line 4, column 3: .*no flag 'datta'. Did you mean 'data'"),
        (wrong("  var %y: int8[2] data=3"), InvalidType, "line 4, column 3: data is True or False, got 3"),
        (wrong("  toy_rely(X=%x)"), NotFound, "line 4, column 3: there is no op 'toy_rely'"),
        (wrong("  %y: int8[] = toy_dropout(X=%x)"), InvalidArgument, "line 4, column 3: .*outputs Out, Mask"),
        (wrong("  %y = toy_relu(X=%x)"), NotFound, "line 4, column 3: variable 'y' is not declared"),
        (wrong("  %x = toy_relu(X=%z)"), NotFound, "line 4, column 3: variable 'z' is not declared"),
        (wrong("  %x: int8[] = toy_relu(X=%x)"), InvalidArgument, r"line 4, column 3: .*declared as float32\[\?, 4\]"),
        (wrong("  %x = toy_relu(Y=%x)"), NotFound, "line 4, column 3: op 'toy_relu' has no input 'Y'"),
        (wrong("  Y=%x = toy_relu(X=%x)"), NotFound, "line 4, column 3: op 'toy_relu' has no output 'Y'"),
        (wrong("  %x = toy_relu(X=%x, X=%x)"), InvalidArgument, r"line 4, column 16: expected every key once"),
        (wrong("  %x = toy_relu(X=%x) {a=1}"), NotFound, "line 4, column 3: op 'toy_relu' has no attribute 'a'"),
        (wrong("  %x = toy_relu(X=%x) role=Froward"), InvalidArgument, "line 4, column 28: expected a role"),
        (wrong("  %x = toy_relu(X=%x) role_var=[%x]"), InvalidArgument, "line 4, column 3: .*pairs"),
        (
            wrong("  %x = toy_relu(X=%x) 3"),
            InvalidArgument,
            "line 4, column 23: expected the end of the line, found '3'",
        ),
        (wrong("  toy_print(X=%x) {text=<print>}"), InvalidArgument, "line 4, column 25: expected .*, found '<'"),
        (wrong('  toy_print(X=%x) {text="\\q"}'), InvalidArgument, "line 4, column 26: expected one of the escapes"),
        (wrong('  toy_print(X=%x) {text="'), InvalidArgument, "line 4, column 25: expected .*, found '\"'"),
        (wrong("  toy_any() {value=Decoy(a=1)}"), NotFound, "line 4, column 20: there is no class 'Decoy'"),
        (wrong("  toy_any() {value=ToyDecay(b=1)}"), InvalidArgument, "line 4, column 20: ToyDecay does not take"),
        (wrong("  toy_any() {value=os.system}"), InvalidArgument, "line 4, column 20: expected a value"),
        (wrong("  toy_any() {value=block 3}"), NotFound, "no"),
        (wrong("  toy_any() {value=block 99999}"), InvalidArgument, "line 4, column 26: expected a number from 0"),
        (wrong("  toy_any() {value=array(int8[2], [1])}"), InvalidArgument, "line 4, column 26: expected a list of as"),
        (wrong("  toy_any() {value=array(int8[2], [1, 999])}"), InvalidArgument, "line 4, column 26: expected numbers"),
        (
            wrong("  toy_any() {value=array(int8[1], [1.5])}"),
            InvalidArgument,
            "line 4, column 26: expected a list of num",
        ),
        (wrong('  toy_any() {value=array(int8[2], "AA==")}'), InvalidArgument, "line 4, column 26: .*2 bytes, got 1"),
        (wrong('  toy_any() {value=array(int8[2], "?")}'), InvalidArgument, "line 4, column 26: .*base64"),
        (wrong("  toy_any() {value=" + "[" * 100 + "]" * 100 + "}"), InvalidArgument, "nested at most 64 deep"),
        (wrong("  toy_any() {value=" + "9" * 5000 + "}"), InvalidArgument, "line 4, column 20: expected a number"),
        (wrong("  block 0 {\n }"), InvalidArgument, "line 4, column 3: expected a block that is not there yet"),
        ("program\nblock 0 inputs=[%a] {\n}", NotFound, "block 0 has no variable 'a'"),
    ],
)
def test_mistakes_are_named_with_line_and_column(text: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        parse_program(text)


def test_blocks_nested_too_deep_are_refused() -> None:
    text = "program\n" + "".join(f"block {i} {{\n" for i in range(200)) + "}\n" * 200
    with pytest.raises(InvalidArgument, match="expected block 0, and in it"):
        parse_program(text)


@given(st.text())
def test_strings_come_back(text: str) -> None:
    assert unquote(quote(text)) == text


def test_lone_surrogates_come_back() -> None:
    assert unquote(quote("\ud83d\ude00x\udc80")) == "\ud83d\ude00x\udc80"


@given(st.data())
@relaxed
def test_damaged_text_is_read_or_refused(choice: st.DataObject) -> None:
    """Cutting, repeating and swapping pieces never gives another error than ours."""
    text = TEXT
    for _ in range(choice.draw(st.integers(1, 3))):
        at, other = choice.draw(st.tuples(*[st.integers(0, len(text))] * 2))
        upto = at + choice.draw(st.integers(0, 30))
        pieces = ["", "%", '"', "{", "]", "block 1", "\n", "9" * 30, text[other : other + 20]]
        text = text[:at] + choice.draw(st.sampled_from(pieces)) + text[upto:]
    try:
        program = parse_program(text)
    except EnforceNotMet:
        return
    assert_reads_back(program)


with toys_declared():
    TEXT = str(built(everything))

"""How the parts of a program are spelled in text: names, words, strings, types and values.

`printer` writes with the functions here and `parser` reads with `tokens`: it is decided in one place.

    %fc_0.w_0   %"any name"         a variable; quoted unless made of letters, digits and _ . @ / $ + -
    matmul_v2   X@GRAD   "a b"      an op, slot or attribute
    float32[?, 10]   rows float32[9]    a type: kind, dtype and dimensions, ? for an unknown one
    None True -1 2.5 inf nan "text" [1, 2] (1, 2) {"key": 1}
    array(float32[2], [1.0, 2.0])   array(uint8[4096], "base64")
    block 1   L2Decay(coeff=0.0001)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InvalidArgument
from workbench.framework.program.block import Block
from workbench.framework.values.constants import array_data, array_dtype, plain
from workbench.framework.values.portable import config_of
from workbench.framework.values.spec import DENSE, Spec, shape_text

SPELLED = 16  # arrays of up to so many elements are written out

_BARE_NAME = re.compile(r"[\w@./$+-]+")
_BARE_WORD = re.compile(r"[^\W\d][\w@.]*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_TO_ESCAPE = {value: "\\" + key for key, value in _ESCAPES.items()}
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""(?:[ \t\r]|\#[^\n]*+)*+  # spaces and comments, then
    (?:(?P<end>\n)
    |(?P<name>%(?:[\w@./$+-]+|{_STRING}))
    |(?P<string>{_STRING})
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-inf\b)
    |(?P<word>[^\W\d][\w@.]*)
    |(?P<mark>[{{}}()\[\]:,=|?])
    |(?P<eof>\Z)
    |(?P<wrong>.))""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of text. `kind` is end, name, string, number, word, mark or eof; `value` what it stands for."""

    kind: str
    text: str
    value: Any
    start: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, without spaces and comments, then one of kind `eof`.

    Raises:
        SyntaxFault: a character that starts no token, a bad escape, a number with too many digits.
    """
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        yield Token(kind, match[kind], _VALUES[kind](match), match.start(kind))
        if kind == "eof":
            return


class SyntaxFault(InvalidArgument):
    """Text that cannot be read: where (a character offset), what was expected and what was found."""

    def __init__(self, start: int, expected: str, got: str) -> None:
        self.start, self.expected, self.got = start, expected, got
        super().__init__(f"expected {expected}, found {got}")


def _number(match: re.Match[str]) -> int | float:
    text = match["number"]
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError as error:  # int() takes at most some thousand digits
        raise SyntaxFault(match.start("number"), "a number", f"one that cannot be read: {error}") from error


def _string(match: re.Match[str]) -> str:
    return unquote(match["string"], match.start("string"))


def _name(match: re.Match[str]) -> str:
    text = match["name"]
    return unquote(text[1:], match.start("name") + 1) if text[1] == '"' else text[1:]


def _wrong(match: re.Match[str]) -> str:
    raise SyntaxFault(match.start("wrong"), "a name, word, number or mark", repr(match["wrong"]))


_VALUES: dict[str, Callable[[re.Match[str]], Any]] = {
    "end": lambda match: None,
    "name": _name,
    "string": _string,
    "number": _number,
    "word": lambda match: match["word"],
    "mark": lambda match: match["mark"],
    "eof": lambda match: None,
    "wrong": _wrong,
}


def quote(text: str) -> str:
    """A string between double quotes; what cannot be printed is escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_TO_ESCAPE.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def _code(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def unquote(text: str, start: int = 0) -> str:
    """The string that `quote` spells as `text`.

    Raises:
        SyntaxFault: an unknown escape.
    """

    def char(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code:
            number = int(code, 16)
            if number < 0x110000:
                return chr(number)
        elif match[3] in _ESCAPES:
            return _ESCAPES[match[3]]
        raise SyntaxFault(
            start + match.start() + 1, 'one of the escapes \\" \\\\ \\n \\t \\r \\uXXXX \\UXXXXXXXX', match[0]
        )

    return _ESCAPED.sub(char, text[1:-1])


def name_text(name: str) -> str:
    """A variable's name, with its %."""
    return "%" + (name if _BARE_NAME.fullmatch(name) else quote(name))


def word_text(word: str) -> str:
    """The name of an op, slot or attribute."""
    return word if _BARE_WORD.fullmatch(word) else quote(word)


def type_text(spec: Spec) -> str:
    """Kind (unless dense), dtype and shape."""
    text = f"{spec.dtype}{shape_text(spec.shape)}"
    return text if spec.kind == DENSE else f"{spec.kind} {text}"


def names_text(names: list[str], is_list: bool) -> str:
    """What a slot holds: one name, or a list in brackets."""
    if len(names) == 1 and not is_list:
        return name_text(names[0])
    return "[" + ", ".join(map(name_text, names)) + "]"


def value_text(value: Any) -> str:
    """An attribute's value. What cannot be read back is spelled `<like this>`."""
    write = _WRITERS.get(type(value))
    return write(value) if write else _other_text(value)


def _float_text(value: float) -> str:
    return repr(value) if math.isfinite(value) or value != value else ("inf" if value > 0 else "-inf")


def _list_text(values: list[Any]) -> str:
    return "[" + ", ".join(map(value_text, values)) + "]"


def _tuple_text(values: tuple[Any, ...]) -> str:
    comma = "," if len(values) == 1 else ""
    return "(" + ", ".join(map(value_text, values)) + comma + ")"


def _dict_text(values: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{value_text(key)}: {value_text(value)}" for key, value in values.items()) + "}"


def _array_text(array: np.ndarray) -> str:
    dtype = array_dtype(array)
    if dtype is None:
        return f"<array of {array.dtype}>"
    spelled = _spelled(array) if array.size <= SPELLED else None
    return f"array({type_text(Spec(array.shape, dtype))}, {spelled or quote(array_data(array))})"


def _spelled(array: np.ndarray) -> str | None:
    """The elements as numbers, None if that would lose bits (payloads of NaNs)."""
    values = [float("nan") if value != value else value for value in array.reshape(-1).tolist()]
    exact = np.array(values, array.dtype).tobytes() == array.tobytes()
    return _list_text(values) if exact else None


def _other_text(value: Any) -> str:
    simple = plain(value)
    if simple is not value:
        return value_text(simple)
    for base, write in _WRITERS.items():
        if isinstance(value, base):
            return write(value)
    if isinstance(value, Block):
        return f"block {value.idx}"
    return object_text(value)


def object_text(value: Any) -> str:
    """An object of a registered class as a call."""
    known = config_of(value)
    if known is None:
        return f"<{type(value).__name__}>"
    name, config = known
    return f"{word_text(name)}({', '.join(f'{word_text(k)}={value_text(v)}' for k, v in config.items())})"


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: int.__repr__,
    float: _float_text,
    str: quote,
    list: _list_text,
    tuple: _tuple_text,
    dict: _dict_text,
    np.ndarray: _array_text,
}

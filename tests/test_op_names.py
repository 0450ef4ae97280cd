"""No op is known by its name away from its declaration.

Who needs an op imports its record; who needs to know something of ops asks their traits. Names are read from the source
of every package above `ops`; those of one word (`mean`, `sum`, `shape`), which may be anything, only where they are
compared with a type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from workbench.facade import STATIC_NN, names
from workbench.fluid.tables import LAYERS
from workbench.framework.expr.expr import FUNCTIONS
from workbench.framework.op.record import LIBRARIES, all_ops

ROOT = Path(wb.__file__).parent
OPS = all_ops()
BELOW = ("framework", *LIBRARIES, "runtime")  # what Python's operators stand for; the declarations; kernels
FILES = sorted(path for path in ROOT.rglob("*.py") if not any(path.is_relative_to(ROOT / folder) for folder in BELOW))
NOT_OPS = {*FUNCTIONS, *(name for op in OPS.values() for name in op.attrs)}
FUNCTIONS_OF_USERS = (
    names(STATIC_NN).keys() | names(LAYERS).keys() | {"leaky_relu"}
)  # whose names layers bear, and the gain of one


def is_name_of_op(text: str) -> bool:
    if text not in OPS or text in NOT_OPS:
        return False
    return "_" in text or text[-1].isdigit()


def strings(node: ast.AST) -> Iterator[ast.Constant]:
    yield from (n for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def names_of_kernels(tree: ast.AST) -> set[ast.Constant]:
    """The strings of `writer.row("softmax", …)` and `@device_kernel("softmax")`: kernels may be called like ops."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    rows = [argument for n in calls if getattr(n.func, "attr", "") == "row" for argument in n.args[:1]]
    noted = [argument for n in calls if getattr(n.func, "id", "") == "device_kernel" for argument in n.args]
    return {text for argument in (*rows, *noted) for text in strings(argument)}


def compared(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings that a type is compared with, or looked up among."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "type":
            yield from (text for other in node.comparators for text in strings(other))


def found_in(source: str) -> list[tuple[int, str]]:
    tree = ast.parse(source)
    spelled = [text for text in strings(tree) if is_name_of_op(text.value) and text not in names_of_kernels(tree)]
    asked = [text for text in compared(tree) if text.value in OPS]
    return sorted({(text.lineno, text.value) for text in (*spelled, *asked)})


def names_in(path: Path) -> list[str]:
    where = path.relative_to(ROOT)
    layers = FUNCTIONS_OF_USERS if where.parts[0] in {"builders", "fluid"} else set()
    places = found_in(path.read_text(encoding="utf-8"))
    return [f"{where.as_posix()}:{line}: {name}" for line, name in places if name not in layers]


def test_no_op_is_known_by_its_name() -> None:
    assert [place for path in FILES for place in names_in(path)] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("if node.type == 'mean': pass", "mean"),
        ("if node.type in ('relu', other): pass", "relu"),
        ("TABLE = {'matmul_v2': 1}", "matmul_v2"),
        ("block.append_op('fill_any_like')", "fill_any_like"),
        ("writer.row('sum_rows', 'batch_norm_grad')", "batch_norm_grad"),
    ],
)
def test_a_name_is_found(line: str, name: str) -> None:
    assert found_in(line) == [(1, name)]


def test_other_words_are_let_be() -> None:
    assert found_in("x = attrs.get('reduce_all'); y = 'mean'; writer.row('pick_label', x); 'logical_or'") == []

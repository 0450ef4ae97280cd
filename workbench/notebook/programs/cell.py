"""Running the text of a cell in the user's namespace: right line numbers, nothing left behind on failure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MISSING = object()


def run_cell(shell: Any, magic: str, text: str) -> Any:
    """Run a cell's text, below its magic line, in the shell's namespace.

    Args:
        magic: the first line of the cell as the user typed it, `%%static_program net --seed 1`.
        text: the lines below it; shell syntax (`!ls`, `%time`) is allowed as in any cell.

    Returns:
        the value of the last line if that is an expression, like a cell without a magic.

    Raises:
        whatever the text raises. Tracebacks show `Cell In[n]` with line numbers that count the magic line.
    """
    __tracebackhide__ = True
    source = f"# {magic}\n{shell.transform_cell(text)}"  # a comment in the magic's place keeps line numbers
    file = shell.compile.cache(source, shell.execution_count - 1, raw_code=f"{magic}\n{text}")
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(shell.compile(tree, file, "exec"), shell.user_ns)
    if last is None:
        return None
    expression = ast.Expression(last.value)
    return eval(shell.compile(expression, file, "eval"), shell.user_ns)


@contextmanager
def restored_on_error(namespace: dict[str, Any]) -> Iterator[None]:
    """If the `with` body raises (or is interrupted), every name is bound to what it was bound to before."""
    __tracebackhide__ = True
    before = dict(namespace)
    try:
        yield
    except BaseException:
        for name in [n for n in namespace if n not in before]:
            del namespace[name]
        for name, value in before.items():
            if namespace.get(name, _MISSING) is not value:
                namespace[name] = value
        raise

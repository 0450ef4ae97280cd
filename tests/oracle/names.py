"""Which names of a package an example uses, and which of them another package lacks."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tests.oracle.worker import unprompted


def used_names(source: str, package: str) -> set[str]:
    """The dotted names below `package` that an example imports or reads, through its aliases too.

    Example:
        >>> sorted(used_names(">>> import paddle.nn.functional as F\\n>>> F.relu(F.gelu(1))\\n", "paddle"))
        ['paddle.nn.functional', 'paddle.nn.functional.gelu', 'paddle.nn.functional.relu']
    """
    try:
        tree = ast.parse(unprompted(source))
    except SyntaxError:
        return set()
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        aliases.update(_imported(node))
    read = {_resolved(node, aliases) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {name for name in {*read, *aliases.values()} if name and name.startswith(package + ".")}
    return {name for name in names if not any(other.startswith(name + ".") for other in read if other)} | {
        name for name in aliases.values() if name.startswith(package + ".")
    }


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for name in node.names:
            yield (name.asname, name.name) if name.asname else (name.name.split(".")[0],) * 2
    elif isinstance(node, ast.ImportFrom) and node.module:
        for name in node.names:
            yield name.asname or name.name, f"{node.module}.{name.name}"


def _resolved(node: ast.Attribute, aliases: dict[str, str]) -> str | None:
    """`a.b.c` with what `a` stands for, if that was imported."""
    parts = [node.attr]
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    if not (isinstance(value, ast.Name) and value.id in aliases):
        return None
    return ".".join([aliases[value.id], *reversed(parts)])


def object_named(package: ModuleType, name: str) -> Any:
    """What `package`, called otherwise, has under a dotted name of the original; None where it has nothing."""
    value: Any = package
    path = package.__name__
    for part in name.split(".")[1:]:
        path += "." + part
        try:
            value = getattr(value, part) if hasattr(value, part) else importlib.import_module(path)
        except ImportError:
            return None
    return value

"""Who imports whom: read from the sources, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Import(NamedTuple):
    """One imported name: where, `module.name` in full, and whether only type checkers see it."""

    line: int
    name: str
    for_types: bool


def sources(root: Path = ROOT) -> list[Path]:
    """All files of the package, the folders that sit beside it included."""
    folders = [root / "workbench", root / "magics", root / "assets"]
    return sorted(p for folder in folders for p in folder.rglob("*.py") if "node_modules" not in p.parts)


def module_name(path: Path, root: Path = ROOT) -> str:
    """The dotted name of a file."""
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[0] != "workbench":
        parts.insert(0, "workbench")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The module a `from … import` names."""
    if not node.level:
        return node.module or ""
    base = module.split(".") if is_package else module.split(".")[:-1]
    base = base[: len(base) - node.level + 1]
    return ".".join(base + ([node.module] if node.module else []))


def imports(path: Path, module: str) -> Iterator[Import]:
    """Every import in a file, those inside functions included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    only_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, id(node) in only_types) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            source = absolute(node, module, path.name == "__init__.py")
            names = (f"{source}.{alias.name}" for alias in node.names)
            yield from (Import(node.lineno, name, id(node) in only_types) for name in names)


def import_graph(root: Path = ROOT, parents: frozenset[tuple[str, str]] = frozenset()) -> dict[str, set[str]]:
    """The modules that each module imports, at its top, inside functions or for types only.

    To import `a.b.c` is to run `a/__init__` and `a/b/__init__` first, so it counts as importing them too, unless the
    importer lies in that package: then they have begun already.

    Args:
        parents: (part, whole) imports for types only that do not count.
    """
    files = {module_name(path, root): path for path in sources(root)}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        imported = set()
        for one in imports(path, module):
            target = _module_of(one.name, files)
            if target is not None and not (one.for_types and (module, target) in parents):
                imported |= {target, *(package for package in _packages(target) if not is_in(module, package))}
        graph[module] = imported - {module}
    return graph


def _module_of(name: str, files: Mapping[str, Path]) -> str | None:
    """The module in which an imported name is looked up, None for those of others."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name or None


def is_in(module: str, package: str) -> bool:
    """Whether a module lies in a package, or is it."""
    return f"{module}.".startswith(f"{package}.")


def _packages(module: str) -> Iterator[str]:
    """The packages around a module."""
    parts = module.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The largest sets of modules that all import each other, directly or through others."""
    reach = {module: _reached(graph, module) for module in graph}
    return {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in graph
        if module in reach[module]
    }


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached

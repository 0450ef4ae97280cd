"""`PYTHON -m tests.oracle.listing PACKAGE`: the examples in the docstrings of a package's public names, as JSON.

It runs under the Python that has the package, so it needs the standard library alone. A name is public when it is in
the `__all__` of a module that lies where its name says; of a public class, its public methods are. An example that
several names share is told once, under the first of them.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# Old or inner modules with an `__all__` of their own.
NOT_PUBLIC = frozenset(
    {"base", "fluid", "framework", "libs", "pir", "reader", "dataset", "cost_model", "decomposition"}
)
_BLOCK = re.compile(r"^(?P<margin>[ \t]*)\.\. code-block:: *(?:python|pycon)[^\n]*\n", re.MULTILINE)
_OPTION = re.compile(r"^[ \t]*:[\w-]+:[^\n]*$")


def examples(package: ModuleType) -> Iterator[dict[str, Any]]:
    """`{"namespace", "name", "source"}` of every example: the lines of one code block with `>>>` in it."""
    seen = set()
    for namespace, name, documented in documented_names(package):
        blocks = [block for block in code_blocks(inspect.getdoc(documented) or "") if block not in seen]
        seen.update(blocks)
        for number, block in enumerate(blocks):
            yield {"namespace": namespace, "name": f"{name}#{number}" if number else name, "source": block}


def code_blocks(doc: str) -> list[str]:
    """The Python code blocks of a docstring that are written as at a prompt, without their margins."""
    blocks = []
    for match in _BLOCK.finditer(doc):
        block = textwrap.dedent("\n".join(_indented(doc[match.end() :].splitlines(), match["margin"])))
        if ">>>" in block:
            blocks.append(block.strip("\n") + "\n")
    return blocks


def _indented(lines: list[str], margin: str) -> Iterator[str]:
    """The lines further in than `margin`, up to the first that is not; without the options of the directive."""
    for line in lines:
        if line.strip() and not (line.startswith(margin) and line[len(margin) :][:1].isspace()):
            return
        if not _OPTION.match(line):
            yield line


def documented_names(package: ModuleType) -> Iterator[tuple[str, str, Any]]:
    """(namespace, name, object) of functions, classes and the methods of public classes."""
    for path, module in public_modules(package):
        for name in module.__all__:
            value = getattr(module, name, None)
            if value is None or inspect.ismodule(value):
                continue
            own = path
            if inspect.isclass(value) and name == "Tensor":
                own = f"{path}.Tensor"  # has more examples than most modules: a namespace of its own
            yield own, f"{path}.{name}", value
            if inspect.isclass(value):
                yield from ((own, f"{path}.{name}.{method}", member) for method, member in _methods(value))


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name in dir(owner):
        if not name.startswith("_") or name in ("__init__", "__call__"):
            try:
                yield name, getattr(owner, name)
            except Exception:  # a property of the class itself that needs more than the class
                continue


def public_modules(package: ModuleType) -> list[tuple[str, ModuleType]]:
    """(name, module) of the modules that have names of their own, the package first, then the shortest names."""
    modules = {package.__name__: package}
    waiting = [package.__name__]
    while waiting:
        path = waiting.pop()
        for name, value in list(vars(modules[path]).items()):
            child = f"{path}.{name}"
            if _is_public(child, value) and child not in modules:
                modules[child] = value
                waiting.append(child)
    return sorted(((path, module) for path, module in modules.items() if _names(module)), key=_outermost_first)


def _is_public(path: str, value: Any) -> bool:
    """Whether a module lies where it is found: others were only imported there."""
    name = path.rpartition(".")[2]
    inside = isinstance(value, ModuleType) and value.__name__ == path
    return inside and not name.startswith("_") and name not in NOT_PUBLIC


def _names(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", ()))


def _outermost_first(named: tuple[str, ModuleType]) -> tuple[int, str]:
    return named[0].count("."), named[0]


def main(arguments: list[str]) -> int:
    package = importlib.import_module(arguments[0])
    json.dump({"version": getattr(package, "__version__", "?"), "examples": list(examples(package))}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

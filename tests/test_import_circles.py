"""No two files import each other, directly or through others: not at their top, not inside functions, not for types.

A circle is broken by putting things where they belong. An import inside a function, put there because it would be a
circle at the top, is one all the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.imports import circles, import_graph, imports, is_in, module_name, sources

# A tree of objects with links to their parents: for types only, a part names the whole that holds it.
PARENTS = frozenset(
    (f"workbench.framework.program.{part}", f"workbench.framework.program.{whole}")
    for part, whole in (("variable", "block"), ("operator", "block"), ("block", "program"))
)


def test_files_import_each_other_in_one_direction() -> None:
    assert circles(import_graph(parents=PARENTS)) == set()


def test_parts_name_their_wholes_for_types_only() -> None:
    files = {module_name(path): path for path in sources()}
    for part, whole in PARENTS:
        assert {one.for_types for one in imports(files[part], part) if is_in(one.name, whole)} == {True}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "from workbench.b import x", "b": "from workbench.a import y"}, ["a b"]),
        ({"a": "import workbench.b", "b": "def f():\n    from workbench import a"}, ["a b"]),
        ({"a": "from .b import x", "b": "if TYPE_CHECKING:\n    from .a import y"}, ["a b"]),
        ({"a": "from . import b", "b": "from . import c", "c": "from . import a"}, ["a b c"]),
        ({"p.__init__": "from .a import x", "p.a": "from workbench.p import b", "p.b": ""}, []),
        ({"p.__init__": "from .a import x", "p.a": "from workbench.p import y"}, ["p p.a"]),
        ({"p.__init__": "from . import a", "p.a": "from .. import b", "b": "from .p import c", "p.c": ""}, ["b p p.a"]),
        ({"a": "from . import b", "b": "from . import c", "c": "import numpy"}, []),
        ({"__init__": "from .a import x", "a": "from .b import y", "b": ""}, []),
    ],
)
def test_circles_are_found(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    for name, text in {"__init__": "", **files}.items():
        path = tmp_path / "workbench" / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    cycles = circles(import_graph(tmp_path))
    assert cycles == {frozenset(f"workbench.{name}" for name in names.split()) for names in expected}


def test_a_part_may_name_its_whole_for_types_and_not_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "workbench"
    folder.mkdir()
    (folder / "whole.py").write_text("from workbench.part import P")
    link = frozenset({("workbench.part", "workbench.whole")})
    line = "from workbench.whole import W"
    for text, expected in ((f"if TYPE_CHECKING:\n    {line}", 0), (line, 1), (f"def f():\n    {line}", 1)):
        (folder / "part.py").write_text(text)
        assert len(circles(import_graph(tmp_path, link))) == expected

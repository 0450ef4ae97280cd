"""One name, one thing: no two classes of the package are called the same, and the glossary knows what there is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from tests.imports import sources

ROOT = Path(wb.__file__).parent
TESTS = Path(__file__).parent
SHARED: dict[str, str] = {  # names that several classes may have, each with the reason
    "Group": "Paddle's name of some processes; and ops that a figure draws as one box",
    "Sequential": "Paddle's name of a layer; and a pass, which BuildStrategy names",
    "SyncBatchNorm": "Paddle's name of a layer; and the pass that makes it true on several devices",
}


VAGUE = {"found", "made"}  # how a value came about: it is called after what it is


def vague_names(source: str) -> list[tuple[int, str]]:
    """Variables and parameters with such a name, and their lines."""
    named = [(node.lineno, node.id) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    given = [(node.lineno, node.arg) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.arg)]
    return sorted({(line, name) for line, name in named + given if name in VAGUE})


def test_variables_say_what_they_hold() -> None:
    read = [*sources(), *sorted(TESTS.rglob("*.py"))]
    vague = {str(path.relative_to(TESTS.parent)): vague_names(path.read_text("utf-8")) for path in read}
    assert len(read) > 1500 and {path: names for path, names in vague.items() if names} == {}


def test_vague_names_are_seen_in_bodies_and_signatures() -> None:
    source = "def f(found, other):\n    made: int = other.found\n    return lambda made: found\n"
    assert vague_names(source) == [(1, "found"), (2, "made"), (3, "found"), (3, "made")]


PAGE = TESTS.parent / "assets"
VAGUE_ON_THE_PAGE = VAGUE | {"seen", "given", "taken"}
NAMED = re.compile(  # declared, a parameter, a part of a pattern or an object; its comments and strings are left out
    rf"(?:\b(?:const|let|var)\s+|[(\[{{,:]\s*(?:\.\.\.)?)({'|'.join(sorted(VAGUE_ON_THE_PAGE))})\s*(?=[,)\]}}=:;]|(?:of|in)\s)"
)


def vague_script_names(source: str) -> list[str]:
    return NAMED.findall(re.sub(r"//.*", "", re.sub(r'"(?:\\.|[^"\\\n])*"', '""', source)))


def test_variables_of_the_page_say_what_they_hold() -> None:
    read = [*(PAGE / "src").rglob("*.js"), *(PAGE / "fixtures").rglob("*.js")]
    vague = {str(path.relative_to(PAGE)): vague_script_names(path.read_text("utf-8")) for path in read}
    assert len(read) > 80 and {path: names for path, names in vague.items() if names} == {}


def test_vague_names_are_seen_in_scripts() -> None:
    source = 'const found = [];\nfor (const seen of rows) f("(given)"); // (taken)\n({ more, ...made }) => more;\n'
    assert vague_script_names(source) == ["found", "seen", "made"]
    assert vague_script_names("const answer = others.found((made = 1), `${hits} found, not seen`);") == ["made"]


def classes(source: str) -> Iterator[str]:
    yield from (node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))


def classes_by_name(root: Path) -> dict[str, list[str]]:
    where: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for name in classes(path.read_text("utf-8")):
            where[name].append(str(path.relative_to(root)))
    return where


def twice(where: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: paths for name, paths in where.items() if len(paths) > 1}


def test_no_two_classes_share_a_name() -> None:
    assert {name: paths for name, paths in twice(classes_by_name(ROOT)).items() if name not in SHARED} == {}
    assert sorted(SHARED.keys() - twice(classes_by_name(ROOT)).keys()) == []  # a reason that is not needed any more


def test_classes_of_one_name_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Plan: ...\nclass Row: ...\n")
    (tmp_path / "b.py").write_text("def f():\n    class Plan: ...\n")
    assert twice(classes_by_name(tmp_path)) == {"Plan": ["a.py", "b.py"]}


def test_the_names_of_the_glossary_are_in_the_package() -> None:
    """Its second column says where in the code a term stands: classes, functions, files."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    glossary = text.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    where = [line.split("|")[2] for line in glossary.splitlines() if line.startswith("| ")]
    named = [name for cell in where for name in re.findall(r"`([^`]+)`", cell)]
    sources = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in ROOT.rglob("*.py")}
    defined = set(re.findall(r"^ *(?:class|def) (\w+)", "\n".join(sources.values()), re.MULTILINE))
    assert len(named) > 30
    assert [n for n in named if n not in defined and not any(f.startswith(n) for f in sources)] == []

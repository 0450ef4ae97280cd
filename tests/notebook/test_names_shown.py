"""Names that are hard to show: in every picture, text, page and file they can be read, and break nothing."""

from __future__ import annotations

import ast
import json
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.framework.text.printable import all_printable, escape, printable
from workbench.notebook.dashboard.page.dashboard import Dashboard
from workbench.notebook.messages import encode

ROOT = Path(wb.__file__).parent
NAMES = [
    "$x$", "$", "a$b$c", "$\\frac{$", "a\x07b", "tab\there", "two\nlines", "back\rover", "nul\x00", "esc\x1b[31m",
    "\ud800", "half\udfff", "\ufffe", "\uffff", "\x85", "\x7f", "\u202eleft", "\u2028", "𝕏", "é", "<script>", "a&b",
    "]]>", "-->", "\"'", "_hidden", "%s {x} %(a)s", "\\", "#", " ", "../x", "n" * 200,
]  # fmt: skip


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[Dashboard, Any]]:
    """A program whose feeds and layers have these names, after a step on two devices, and its dashboard."""
    with Built() as p:
        feeds = [static.data(name, [None, 2]) for name in NAMES]
        layers = [static.nn.fc(x, 1, name=f"{name}!") for x, name in zip(feeds, NAMES, strict=True)]
        loss = wb.mean(wb.add_n(layers))
        wb.optimizer.SGD(0.1).minimize(loss)
    scope, exe = static.Scope(), static.Executor()
    exe.run(p.startup, scope=scope)
    program = static.CompiledProgram(p.main).with_data_parallel(loss_name=loss.name, places=static.cpu_places(2))
    dashboard = wb.dashboard(program)
    for _ in range(2):
        exe.run(program, {name: np.ones((4, 2), np.float32) for name in NAMES}, [loss], scope=scope)
    yield dashboard, p.main
    dashboard.close()


@pytest.mark.parametrize("panel", ["graph", "feeds", "scopes", "timeline"])
def test_pictures(watched: tuple[Dashboard, Any], panel: str, tmp_path: Path) -> None:
    dashboard, _ = watched
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # of letters of other alphabets
        dashboard.save(panel, tmp_path / "picture.png")
        dashboard.save(panel, tmp_path / "picture.svg")
    drawn = "".join(ElementTree.parse(tmp_path / "picture.svg").getroot().itertext())
    assert len(drawn) > 50 and drawn == printable(drawn)
    assert panel != "feeds" or all(text in drawn for text in ("a$b$c", "$\\frac{$", "a\\x07b", "\\ud800"))


def test_curves_have_them_too(tmp_path: Path) -> None:
    with Built() as p:
        loss = wb.mean(static.nn.fc(static.data("x", [None, 2]), 1))
        wb.optimizer.SGD(0.1).minimize(loss)
    batches = [{"x": np.ones((2, 2), np.float32)}] * 3
    run = wb.train(
        p.main, batches, epochs=1, startup=p.startup, scope=static.Scope(), fetch=dict.fromkeys(NAMES, loss),
        name="a$\x07\ud800", record=tmp_path / "runs.sqlite", progress=False,
    )  # fmt: skip
    run.wait()
    assert set(run.history) >= set(NAMES)
    dashboard = wb.dashboard(run)
    try:
        dashboard.save("curves", tmp_path / "curves.svg")
        assert "a$b$c" in "".join(ElementTree.parse(tmp_path / "curves.svg").getroot().itertext())
        repr(dashboard).encode()
    finally:
        dashboard.close()
    table = wb.runs(tmp_path / "runs.sqlite")
    for shown in (repr(table), table._repr_html_(), repr(run), wb.compare(table)._repr_html_()):
        assert shown.encode() and "\x07" not in shown and "\x1b" not in shown
    table.to_csv(tmp_path / "runs.csv")
    table.to_json(tmp_path / "runs.json")
    assert json.loads((tmp_path / "runs.json").read_text("utf-8"))[0]["name"] == "a$\x07\\ud800"


def test_words_and_messages(watched: tuple[Dashboard, Any], tmp_path: Path) -> None:
    dashboard, main = watched
    words = repr(dashboard)
    assert words == printable(words) and "a\\x07b" in words
    for message in dashboard.messages().values():
        content, _ = encode(message if isinstance(message, dict) else {"all": message})
        assert json.loads(json.dumps(content, ensure_ascii=False).encode())
    dashboard.export_chrome_trace(tmp_path / "trace.json")
    assert "a$b$c" in json.dumps(json.loads((tmp_path / "trace.json").read_text("utf-8")))
    assert str(main).encode()


@pytest.mark.parametrize("name", ["\ud800", "a\x1b[31m", "nul\x00"])
def test_layers_and_specs_can_be_printed(name: str) -> None:
    layers = wb.nn.Sequential((name, wb.nn.LayerDict({name: wb.nn.Linear(2, 2)})))
    spec = static.InputSpec([1], "float32", name)
    for text in (repr(layers), repr(spec)):
        assert text.encode() and printable(name) in text and name not in text


def test_what_is_hidden_is_written_as_in_a_string() -> None:
    for name in NAMES:
        shown = printable(name)
        assert ast.literal_eval(f"'''{shown}'''" if "\\" not in name and "'" not in name else repr(name)) == name
        ElementTree.fromstring(f'<a b="{escape(name)}">{escape(name)}</a>')
        shown.encode()
    assert all_printable({"\x07": ["\x1b", ("a", 1)]}) == {"\\x07": ["\\x1b", ["a", 1]]}


def test_html_is_escaped_in_one_way() -> None:
    others = [
        str(path.relative_to(ROOT.parent))
        for folder in (ROOT, ROOT.parent / "magics")
        for path in folder.rglob("*.py")
        if "html import escape" in path.read_text("utf-8") and path.name != "printable.py"
    ]
    assert others == []

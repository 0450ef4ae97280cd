"""Progress bars in a notebook: outputs that stay in a saved one, and no widgets."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.notebook.conftest import Notebook
from workbench.experiments.run import Run
from workbench.experiments.training.loops import progress
from workbench.notebook.steps import bars


@pytest.fixture
def drawn(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is shown in place of one another, in the kernel of a notebook with the extension loaded."""
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(notebook.shell.display_pub, "publish", lambda data, *_, **__: shown.append(data))
    monkeypatch.setattr(notebook.shell, "kernel", SimpleNamespace(), raising=False)
    bars.draw_bars(notebook.shell)
    yield shown
    bars.draw_bars_as_before()


def test_a_run_in_a_notebook_has_a_bar_of_html(drawn: list[dict[str, Any]]) -> None:
    run = Run("a <run>", lambda run: iter([{"loss": 2.0}, {"loss": 0.5}]), 2)
    run.subscribe(progress.bar_of(run, True))
    run.start().wait(30)
    assert drawn and all(set(bundle) == {"text/html", "text/plain"} for bundle in drawn)
    page = ElementTree.fromstring(drawn[-1]["text/html"])
    (bar,) = page.iter("progress")
    assert (bar.get("value"), bar.get("max")) == ("2", "2")
    assert re.fullmatch(r"a <run>: 2/2 \[00:00<00:00, .*, loss=0.5\]", page.findtext("span"))
    assert "100%" in drawn[-1]["text/plain"]


def test_steps_without_an_end_are_counted(drawn: list[dict[str, Any]]) -> None:
    bar = progress.new_bar(desc="net", unit="step", mininterval=0)
    bar.update(3)
    bar.close()
    assert "<progress" not in drawn[-1]["text/html"] and "net: 3step" in drawn[-1]["text/html"]


def test_a_bar_that_is_not_wanted_is_not_drawn(drawn: list[dict[str, Any]]) -> None:
    with progress.new_bar(total=2, disable=True) as bar:
        bar.update(1)
    assert drawn == []


def test_tqdm_is_back_when_the_extension_goes(
    drawn: list[dict[str, Any]], notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.shell.run_line_magic("unload_ext", "workbench")
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    with progress.new_bar(total=2, desc="net") as bar:
        bar.update(2)
    out, err = capsys.readouterr()
    assert drawn == [] and "net: 100%" in out and "net" not in err

"""The sample notebooks as they are stored: executed, in order, light, and without traces of a machine."""

import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parent.parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE = re.compile(r"(?<![\w.])/(home|root|tmp|work|usr|var|Users|opt)/\w|site-packages|ipykernel_\d")
LINK = re.compile(r"\]\((\d\d_\w+\.ipynb)\)")
LARGEST = 600_000  # bytes


def test_there_are_some() -> None:
    assert "01_quickstart.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_fit_to_be_read(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    assert path.stat().st_size < LARGEST
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "not run from top to bottom"
    for cell in cells:
        text = str(cell.outputs)
        assert not MACHINE.search(text), f"{MACHINE.search(text)} below: {cell.source}"
        assert "image/png" in text or len(text) < 40_000
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert not failed or "raises-exception" in cell.metadata.get("tags", [])
    checked = [cell for cell in cells if "nbval-check-output" in cell.metadata.get("tags", [])]
    assert checked, "no cell is compared with its stored output"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_ends_with_where_to_go_from_there(path: Path) -> None:
    last = nbformat.read(path, as_version=4).cells[-1]
    assert last.cell_type == "markdown" and "## Where to go from here" in last.source and LINK.search(last.source)


def test_every_notebook_is_reached_from_the_first_and_every_link_leads_to_one() -> None:
    links = {path.name: set(LINK.findall(path.read_text())) for path in NOTEBOOKS}
    reached, ahead = set[str](), {NOTEBOOKS[0].name}
    while ahead:
        reached |= ahead
        ahead = set().union(*(links[name] for name in ahead)) - reached
    assert reached == links.keys() == set(LINK.findall((FOLDER / "README.md").read_text()))
    assert links[NOTEBOOKS[0].name] >= links.keys() - {NOTEBOOKS[0].name}

"""Pictures become files, and every number and name in them is one that fits."""

import io
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from tests.notebook.figure_messages import (
    curves_message,
    scopes_message,
)
from tests.notebook.figures.real import Real, texts
from workbench.errors import InvalidArgument
from workbench.notebook.figures.graphs.graph import graph
from workbench.notebook.figures.numbers import listed, number_text, seconds_text, shortened, width_of
from workbench.notebook.figures.panels.curves import curves
from workbench.notebook.figures.panels.feeds import feeds
from workbench.notebook.figures.panels.scopes import scopes
from workbench.notebook.figures.panels.timeline import timeline
from workbench.notebook.figures.write import png, save, svg

# Files


def all_figures(real: Real) -> Iterator[Figure]:
    yield graph(real.graph, real.sample)
    yield feeds(real.sample)
    yield timeline(real.sample, real.graph)
    yield scopes(scopes_message(real.training, 3))
    yield curves([curves_message(1, "run")])


def test_every_picture_is_svg_and_png(lenet: Real) -> None:
    for figure in all_figures(lenet):
        root = ElementTree.fromstring(svg(figure))
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(texts(figure)) > 5
        image = Image.open(io.BytesIO(png(figure)))
        assert image.format == "PNG" and min(image.size) > 200
        assert image.convert("RGB").getpixel((1, 1)) == (255, 255, 255)  # readable on a dark page too


def test_the_title_of_an_svg_says_the_gist(tiny: Real) -> None:
    title = ElementTree.fromstring(svg(graph(tiny.graph))).find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text == "SSA graph of tiny: 14 forward, 16 backward, 2 optimize, 2 collective"


def test_texts_can_be_searched(tiny: Real) -> None:
    written = " ".join(texts(graph(tiny.graph)))
    for name in ("cpu:0", "cpu:1", "mul_grad", "fused_update", "fc_0.tmp_2", "forward", "backward", "optimize"):
        assert name in written


def test_the_same_message_gives_the_same_bytes(tiny: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [(svg(f), png(f)) for f in (graph(tiny.graph), timeline(tiny.sample, tiny.graph), feeds(tiny.sample))]
    monkeypatch.setitem(matplotlib.rcParams, "text.color", "#ffffff")  # whatever the user's style is
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 20.0)
    again = [(svg(f), png(f)) for f in (graph(tiny.graph), timeline(tiny.sample, tiny.graph), feeds(tiny.sample))]
    assert first == again
    assert matplotlib.rcParams["font.size"] == 20.0


def test_nothing_of_pyplot_is_needed(tiny: Real) -> None:
    code = "import sys, workbench.notebook.figures.graphs.graph, workbench.notebook.figures.write; "
    code += "print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_describing_does_not_import_matplotlib() -> None:
    code = "import sys, workbench.notebook.figures.text; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_pictures_can_be_made_on_several_threads(tiny: Real) -> None:
    expected = svg(graph(tiny.graph))
    before = dict(matplotlib.rcParams)
    pictures: list[str] = []
    threads = [threading.Thread(target=lambda: pictures.append(svg(graph(tiny.graph)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert pictures == [expected] * 4
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", ["net.svg", "net.png", "NET.SVG"])
def test_save_writes_the_picture(tiny: Real, tmp_path: Path, name: str) -> None:
    figure = graph(tiny.graph)
    save(figure, str(tmp_path / name))
    wanted = png(figure) if name.endswith("png") else svg(figure).encode()
    assert (tmp_path / name).read_bytes() == wanted
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["net", "net.pdf", "net.svg.gz"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"\.svg or \.png"):
        save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.svg").mkdir()
    with pytest.raises(InvalidArgument, match="it is a folder"):
        save(Figure(), tmp_path / "net.svg")


def test_a_missing_folder_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save(Figure(), tmp_path / "missing" / "net.svg")


def test_what_was_there_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "net.svg"
    target.write_text("before")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        save(Figure(), target)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["net.svg"]


# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (2.5e-6, "2.5 µs"), (0.00325, "3.25 ms"), (1.0, "1.0 s"), (61.0, "1 min 1 s"), (7500.0, "2 h 5 min")],
)
def test_seconds(value: float | None, text: str) -> None:
    assert seconds_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (3.0, "3"), (12345.0, "12,345"), (0.123456, "0.1235"), (1.5e-7, "1.50e-07"), (float("nan"), "nan")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number_text(value) == text


@given(st.text(min_size=1, max_size=60), st.floats(0.0, 3.0))
def test_shortened_texts_fit(text: str, room: float) -> None:
    short = shortened(text, room, 7)
    assert width_of(short, 7) <= room and (short == text or width_of(text, 7) > room)


def test_a_list_says_how_many_are_left_out() -> None:
    assert listed(["mul", "relu"], 9, 7) == "mul, relu"
    assert listed(["mul", "relu", "elementwise_add"], 0.7, 7) == "mul, relu +1"
    assert re.fullmatch(r"elem.*…\w* \+1", listed(["elementwise_add_grad", "mul"], 0.9, 7))
    assert listed([], 1, 7) == ""

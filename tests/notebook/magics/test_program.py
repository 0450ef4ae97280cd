"""`%program`, and what summaries count."""

from html.parser import HTMLParser

import pytest
from IPython.core.error import UsageError

from tests.notebook.conftest import Notebook
from workbench.notebook.programs.summary import Summary, memory_text

NET = """%%static_program net --test net_test
x = static.data("x", [None, 4])
label = static.data("label", [None, 1], "int64")
h = static.nn.batch_norm(static.nn.fc(x, 8))
loss = wb.mean(wb.nn.functional.cross_entropy(static.nn.fc(h, 3), label))
wb.optimizer.Momentum(0.1, 0.9).minimize(loss)
"""


class Text(HTMLParser):
    """The words of a page; complains about tags that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.open = [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_summary_counts_what_the_cell_says(notebook: Notebook) -> None:
    notebook.run(NET)
    net = notebook["net"]
    summary = Summary.of(net, notebook["net_startup"], notebook["net_test"])
    assert summary.feeds == (("x", "float32[?, 4]"), ("label", "int64[?, 1]"))
    # fc 4x8 + 8, batch norm scale 8 + bias 8, fc 8x3 + 3; then moving mean 8 and variance 8
    assert (summary.trained.variables, summary.trained.elements) == (6, 32 + 8 + 8 + 8 + 24 + 3)
    assert summary.trained.bytes == 4 * summary.trained.elements
    assert (summary.other.variables, summary.other.elements) == (2, 16)
    # a velocity for every trained parameter, and the learning rate
    assert (summary.state.variables, summary.state.elements) == (7, summary.trained.elements + 1)
    assert sum(summary.ops.values()) == len(list(net.all_ops()))
    assert summary.ops["optimize"] >= 6
    assert summary.ops["forward"] == len(list(notebook["net_test"].all_ops()))


def test_text_and_html_say_the_same(notebook: Notebook) -> None:
    notebook.run(NET)
    (shown,) = notebook.shown
    words = Text(shown["text/html"]).words
    assert words[1] == "net"
    for label_text in words[2:]:
        assert label_text in shown["text/plain"]


def test_a_program_is_printed_as_its_text(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run("%program net")
    (shown,) = notebook.shown
    assert shown["text/plain"] == str(notebook["net"]).rstrip("\n")
    assert "".join(Text(shown["text/html"]).words) == shown["text/plain"]


def test_details_name_the_lines(notebook: Notebook) -> None:
    notebook.run(NET)
    built = notebook.shell.execution_count - 1
    notebook.run("%program net --details")
    assert f"cell In[{built}], line 4" in notebook.shown[0]["text/plain"]


def test_markup_in_names_is_shown_not_obeyed(notebook: Notebook) -> None:
    notebook.run("%%static_program net\nx = static.data('<b>&x', [None, 4])")
    summary = notebook.shown[0]["text/html"]
    notebook.run("%program net")
    for page in (summary, notebook.shown[0]["text/html"]):
        assert "<b>&" not in page and "&lt;b&gt;&amp;x" in page


def test_all_programs_are_listed(notebook: Notebook) -> None:
    notebook.run("%program")
    assert "no program has been built yet" in notebook.shown[0]["text/plain"]
    notebook.run(NET)
    notebook.run("%program")
    lines = notebook.shown[0]["text/plain"].splitlines()
    assert [line.split()[0] for line in lines] == ["name", "net", "net_startup", "net_test"]
    assert "99 elements" in lines[1] and "x, label" in lines[1]
    assert Text(notebook.shown[0]["text/html"]).words[5] == "net"


def test_an_unknown_program_is_named_with_the_closest(notebook: Notebook) -> None:
    notebook.run(NET)
    error = notebook.fail("%program nte")
    assert isinstance(error, UsageError)
    assert str(error) == "there is no program 'nte'. Did you mean 'net'?"
    assert "is a Variable, not a program" in str(notebook.fail("%program loss"))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 10, "1.5 MiB"), (5 << 40, "5.0 TiB")],
)
def test_memory_is_written_in_the_largest_unit(size: int, text: str) -> None:
    assert memory_text(size) == text

"""`%train`: names in, a finished run out."""

import pytest
from IPython.core.error import UsageError

from tests.notebook.conftest import Notebook
from workbench.errors import EnforceNotMet
from workbench.experiments import Run

NET = """%%static_program net --seed 2
x = static.data("x", [None, 4])
t = static.data("t", [None, 1])
loss = wb.mean((static.nn.fc(x, 1) - t) ** 2)
wb.optimizer.SGD(0.01).minimize(loss)
"""
BATCHES = "batches = [(np.ones((5, 4), 'float32'), np.full((5, 1), k, 'float32')) for k in range(3)]"


@pytest.fixture
def net(notebook: Notebook) -> Notebook:
    notebook.run(NET)
    notebook.run(BATCHES)
    return notebook


def test_it_initialises_trains_waits_and_returns_the_run(net: Notebook) -> None:
    run = net.run("run = %train net batches --epochs 4 --fetch loss --quiet\nrun")
    assert isinstance(run, Run)
    assert (str(run.state), run.step) == ("done", 12)
    assert list(run.history) == ["loss"] and len(run.history["loss"]) == 12
    net.run("exe = static.Executor()\nexe.run(net_startup)")
    again = [
        float(net.run(f"exe.run(net, feed=dict(zip('xt', batches[{k % 3}])), fetch_list=[loss])")[0][0])
        for k in range(12)
    ]
    assert run.history["loss"] == pytest.approx(again, rel=1e-6)


def test_a_second_time_it_goes_on(net: Notebook) -> None:
    cell = "run = %train net batches --epochs {} --fetch loss --quiet\nrun.history['loss']"
    parts = net.run(cell.format(1)) + net.run(cell.format(1))
    net.run("static.Executor().run(net_startup)")
    assert parts == net.run(cell.format(2))


def test_it_fetches_by_the_users_name_or_the_variables(net: Notebook) -> None:
    run = net.run("run = %train net batches --steps 1 --fetch loss net.fc_0.w_0 --quiet\nrun")
    assert list(run.history) == ["loss", "net.fc_0.w_0"]


def test_progress_is_shown_when_asked_for_by_nobody_quiet(net: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.experiments.progress._watched", lambda: True)
    net.run("run = %train net batches --steps 3 --fetch loss")
    assert "3/3" in net.printed
    net.run("run = %train net batches --steps 3 --fetch loss --quiet")
    assert "3/3" not in net.printed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "required"),
        ("nte batches", "there is no program 'nte'. Did you mean 'net'?"),
        ("net batchs", "there is no 'batchs' to take batches from. Did you mean 'batches'?"),
        ("net exe", "gives no batches"),
        ("net batches --fetch los", "has no variable 'los'. Did you mean 'loss'?"),
        ("net batches --fetch other_x", "is a variable of another program"),
        ("net batches --steps -1", "at least 0"),
        ("net batches --step_count 1", "unrecognized arguments"),
    ],
)
def test_a_wrong_line_is_explained(net: Notebook, line: str, message: str) -> None:
    net.run("exe = static.Executor()")
    net.run("%%static_program other\nother_x = static.data('other_x', [None, 4])")
    error = net.fail(f"%train {line}")
    assert isinstance(error, UsageError)
    assert message in str(error)
    assert "Traceback" not in net.printed


def test_what_fails_in_the_run_is_raised_here(net: Notebook) -> None:
    net.run("batches[1] = (np.ones((5, 3), 'float32'), batches[1][1])")
    error = net.fail("run = %train net batches --quiet")
    assert isinstance(error, EnforceNotMet) and "'x'" in str(error)
    assert "%train" in net.printed or "run_line_magic" in net.printed


def test_an_interrupt_ends_it_at_a_step_boundary(net: Notebook) -> None:
    net.run(
        "import _thread\n"
        "def endless():\n"
        "    for k in range(10**9):\n"
        "        if k == 50:\n            _thread.interrupt_main()\n"
        "        yield batches[k % 3]\n"
        "class Endless:\n    def __iter__(self):\n        return endless()\n"
        "forever = Endless()"
    )
    run = net.run("run = %train net forever --fetch loss --quiet\nrun")
    assert str(run.state) == "stopped"
    assert 50 <= run.step < 10**9 and len(run.history["loss"]) == run.step

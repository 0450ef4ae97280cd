"""`%train`: names in, a finished run out."""

import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from IPython.core.error import UsageError

import workbench as wb
from tests.notebook.conftest import Notebook
from tests.notebook.magics.test_extension import completed
from workbench import between
from workbench.errors import EnforceNotMet
from workbench.experiments import Run
from workbench.experiments.first_nan import StoppedOnNaN
from workbench.experiments.launch.cluster import TrainingCluster
from workbench.framework.program.program import Program
from workbench.notebook.steps import training

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


def test_it_trains_in_a_cluster_by_its_name_or_in_the_one_that_runs(net: Notebook) -> None:
    for option in ("--cluster", "--cluster ranks"):
        error = net.fail(f"%train net batches --quiet {option}")
        assert isinstance(error, UsageError) and "wb.distributed.cluster(2) starts one" in str(error)
    ranks, asked = TrainingCluster.__new__(TrainingCluster), []
    net.shell.user_ns["ranks"] = ranks
    with (
        patch.object(training, "running", lambda: ranks),
        patch.object(training.experiments, "train", lambda *_, **options: asked.append(options["cluster"])),
    ):
        for option in ("--cluster", "--cluster ranks", ""):
            assert isinstance(net.fail(f"%train net batches --quiet {option}"), TypeError)  # of no run
    assert [one is ranks for one in asked] == [True, True, False]


def test_a_step_function_is_trained_with_in_a_cluster(net: Notebook) -> None:
    ranks, asked = TrainingCluster.__new__(TrainingCluster), []
    net.run("def step(x, t):\n    return 0.0")
    error = net.fail("%train step batches --quiet")
    assert isinstance(error, UsageError) and "%train step batches --cluster" in str(error)
    with (
        patch.object(training, "running", lambda: ranks),
        patch.object(training, "train_steps", lambda *given, **options: asked.append((given, options))),
    ):
        error = net.fail("%train step batches --cluster --devices 2")
        assert isinstance(error, UsageError) and "--devices is of a program" in str(error)
        net.fail("%train step batches --quiet --cluster --steps 3 --valid batches --valid-every 2")  # of no run
    (((cluster, function, batches, steps, epochs, fetch), options),) = asked
    assert (cluster, function, batches) == (ranks, net["step"], net["batches"])
    assert (steps, epochs, fetch) == (3, None, ("loss",))
    assert (options["valid"], options["valid_every"], options["name"]) == (net["batches"], 2, "step")


def test_without_names_the_loss_is_fetched(net: Notebook) -> None:
    run = net.run("run = %train net batches --steps 2 --quiet\nrun")
    assert list(run.history) == ["loss"] and len(run.history["loss"]) == 2
    net.run("%%static_program scores\nx = static.data('x', [None, 4])\ns = static.nn.fc(x, 2)")
    run = net.run("rows = [(np.ones((5, 4), 'float32'),)]\nrun = %train scores rows --steps 2 --quiet\nrun")
    assert (str(run.state), dict(run.history)) == ("done", {})


def test_it_stops_in_front_of_a_nan(net: Notebook) -> None:
    net.run("batches[1] = (np.full((5, 4), np.nan, 'float32'), batches[1][1])")
    error = net.fail("run = %train net batches --stop-on-nan --quiet")
    assert isinstance(error, StoppedOnNaN) and "NaN from step 2" in str(error)
    assert str(net.run("run = %train net batches --epochs 1 --quiet\nrun").state) == "done"


def test_progress_is_shown_when_asked_for_by_nobody_quiet(net: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.experiments.training.loops.progress._watched", lambda: True)
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
        ("net batches --devices 0", "--devices takes a number of at least 1"),
        ("net batches --devices 99999", "--devices takes a number of at most 4,096, got 99999"),
        ("net batches --valid nothing", "there is no 'nothing' to take batches from"),
        ("net batches --valid-every 3", "needs validation data: --valid NAME"),
        ("net batches --mode max", "need --checkpoints FOLDER"),
        ("net batches --checkpoints made --mode least", "invalid choice"),
        ("net batches --step_count 1", "unrecognized arguments"),
        ("net batches --lr 0.1", "--lr 0.1. The optimizer has the learning rate, as in wb.optimizer.Adam(0.01)"),
        ("net batches --batch_size=8", "The DataLoader has the batch size"),
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


def test_an_interrupt_ends_it_at_a_step_boundary(net: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    monkeypatch.setattr(between, "rest", lambda seconds, rest=between.rest: (waits.set(), rest(seconds)))
    net.shell.user_ns["waits"] = waits
    net.run(
        "import _thread\n"
        "def endless():\n"
        "    for k in range(10**9):\n"
        "        if k == 50:\n            waits.wait(60)\n            _thread.interrupt_main()\n"
        "        yield batches[k % 3]\n"
        "class Endless:\n    def __iter__(self):\n        return endless()\n"
        "forever = Endless()"
    )
    begun: list[Run] = []
    real = training.experiments.train
    with patch.object(training.experiments, "train", lambda *a, **k: begun.append(real(*a, **k)) or begun[0]):
        error = net.fail("%train net forever --fetch loss --quiet")
    (run,) = begun
    assert isinstance(error, KeyboardInterrupt) and f"was stopped after step {run.step}" in net.printed
    assert str(run.state) == "stopped"
    assert 50 <= run.step < 10**9 and len(run.history["loss"]) == run.step


def test_it_trains_on_several_devices(net: Notebook) -> None:
    net.run("batches = [(np.ones((4, 4), 'float32') * k, np.full((4, 1), k, 'float32')) for k in range(3)]")
    run = net.run("run = %train net batches --epochs 2 --fetch loss --devices 2 --quiet\nrun")
    assert len(run.executor.inspection.places) == 2 and run.step == 6
    more = net.run("run = %train net batches --epochs 2 --fetch loss --devices 2 --quiet\nrun")
    net.run("static.Executor().run(net_startup)")
    one = net.run("run = %train net batches --epochs 4 --fetch loss --quiet\nrun")
    assert run.history["loss"] + more.history["loss"] == pytest.approx(one.history["loss"], rel=1e-5)


def test_it_evaluates_validation_data_and_keeps_the_best(net: Notebook, tmp_path: Path) -> None:
    net.run("held_out = [(np.ones((2, 4), 'float32'), np.ones((2, 1), 'float32'))]")
    kept = tmp_path / "kept"
    run = net.run(f"run = %train net batches --fetch loss --valid held_out --checkpoints {kept} --quiet\nrun")
    assert (run.epochs, run.epoch, run.step) == (10, 10, 30)
    assert run.validated == list(range(3, 33, 3)) and len(run.history["val_loss"]) == 10
    assert run.best_model_score == min(run.history["val_loss"])
    assert {path.name for path in kept.iterdir()} == {Path(run.best_model_path).name, "last.checkpoint"}
    line = f"--valid held_out --valid-every 4 --checkpoints {tmp_path / 'm'} --monitor loss --mode max"
    run = net.run(f"run = %train net batches --epochs 2 --fetch loss {line} --quiet\nrun")
    assert run.validated == [4, 6] and run.best_model_score == max(np.reshape(run.history["loss"], (2, 3)).mean(axis=1))


def test_options_are_completed(net: Notebook) -> None:
    net.run("held_out = [(np.ones((2, 4), 'float32'), np.ones((2, 1), 'float32'))]")
    assert completed(net, "%train net batches --valid hel") == ["held_out"]
    assert completed(net, "%train net batches --mode ") == ["max", "min"]
    assert completed(net, "%train net batches --dev") == ["--devices"]


LAYER = """
wb.disable_static()
from types import SimpleNamespace as parts
layer = wb.nn.Linear(4, 1)
adam = wb.optimizer.Adam(0.05, parameters=layer.parameters())
losses = parts(square=lambda y, wanted: ((y - wanted) ** 2).mean(), far=lambda y, wanted: (y - wanted).max())
"""
TRAINED = "run = %train layer batches --epochs 2 --quiet --loss losses.square --optimizer adam"


def test_a_layer_is_trained_with_its_loss_and_optimizer(notebook: Notebook) -> None:
    notebook.run(BATCHES + LAYER)
    run = notebook.run(f"{TRAINED} --fetch losses.far --valid batches\nrun")
    assert (run.name, run.step, run.target is notebook["layer"]) == ("layer", 6, True)
    assert list(run.history) == ["loss", "far", "val_loss", "val_far"] and len(set(run.history["loss"])) == 6
    dash = notebook.run("wb.dashboard(layer)")
    assert {"mul_grad", "matmul_v2_grad"} & set(dash.messages()["graph"]["tables"]["type"])
    dash.close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("layer batches", "--loss F.cross_entropy --optimizer adam"),
        ("layer batches --loss losses.sqare --optimizer adam", r"no 'sqare'.*square"),
        ("layer batches --loss lossses.square --optimizer adam", r"no 'lossses'.*losses"),
        ("net batches --loss losses.square", "has its own, by minimize"),
    ],
)
def test_what_a_layer_lacks_is_said(notebook: Notebook, line: str, said: str) -> None:
    notebook.run(BATCHES + LAYER)
    notebook.run(NET)
    error = notebook.fail(f"%train {line}")
    assert isinstance(error, UsageError) and re.search(said, str(error))


def test_layers_and_optimizers_are_completed(notebook: Notebook) -> None:
    notebook.run(LAYER)
    assert "layer" in completed(notebook, "%train la")
    assert completed(notebook, "%train layer batches --optimizer ") == ["adam"]


def test_the_run_has_its_name_before_it_ends_and_after_an_interrupt(net: Notebook) -> None:
    net.run("%train run = net batches --epochs 2 --quiet")
    assert net["run"].step == 6 and net["run"].scope is net["static"].global_scope()
    begun = threading.Event()

    def gate() -> Iterator[dict[str, np.ndarray]]:
        yield from net["batches"]
        deadline = time.monotonic() + 20
        while "cut" not in net.shell.user_ns and time.monotonic() < deadline:  # batches are read ahead of the run
            time.sleep(0.01)
        assert isinstance(net["cut"], Run) and not net["cut"].finished
        begun.set()
        while True:
            yield net["batches"][0]

    net.shell.user_ns["endless"] = gate()
    with patch.object(between, "rest", lambda seconds: _interrupted(begun, seconds)):
        error = net.fail("%train cut = net endless --quiet")
    assert isinstance(error, KeyboardInterrupt)
    assert str(net["cut"].state) == "stopped" and net["cut"].step >= 3
    for line in ("%train net = net batches", "%train batches = net batches"):
        assert isinstance(net.fail(line), UsageError)
    assert isinstance(net["net"], Program)
    assert "cannot be the name of a run" in str(net.fail("%train 2x = net batches"))


def newest() -> Any:
    return next(iter(wb.runs()))


def _interrupted(begun: threading.Event, seconds: float) -> None:
    if begun.wait(seconds):
        begun.clear()
        raise KeyboardInterrupt


def test_a_run_that_was_cut_goes_on_to_the_bits_of_one_that_was_not(net: Notebook, tmp_path: Path) -> None:
    net.run("exe = static.Executor()\nexe.run(net_startup)")
    whole = net.run("run = %train net batches --epochs 4 --quiet\nrun.history['loss']")
    folder = tmp_path / "kept"
    line = f"%train run = net batches --epochs 4 --checkpoints {folder} --quiet"
    net.run(f"exe.run(net_startup)\n{line.replace('--epochs 4', '--epochs 2')}")
    for again in (
        "--resume",
        f"--resume {newest().number}",
        "--resume run",
        f"--resume {folder}/last.checkpoint",
        f"--resume {folder}",
        "--resume net",
    ):
        net.run("exe.run(net_startup)")
        net.run(f"{line.replace('run = ', 'more = ')} {again}")
        assert net["more"].history["loss"] == whole and net["more"].step == 12
        if str(folder) not in again:
            assert newest().settings["resumed_step"] >= 6
        shutil.rmtree(folder)
        net.run(f"exe.run(net_startup)\n{line.replace('--epochs 4', '--epochs 2')}")
    assert "choose one" in str(net.fail("%train net batches --fresh --resume"))
    assert "no run called 'other'" in str(net.fail("other = net\n%train other batches --resume"))
    error = net.fail("%train net batches --resume nett")
    assert isinstance(error, UsageError) and "no run and no checkpoint 'nett'. Did you mean 'net'?" in str(error)
    assert "train(program, loader, checkpoint=PATH)" in str(net.fail(f"wb.resume({str(folder)!r})"))
    line = f"net batches --quiet --epochs 2 --checkpoints {tmp_path}/more"
    net.run(f"%train run = {line} --fresh")
    error = str(net.fail(f"wb.resume({newest().number})"))
    assert f"%train {line} --resume {newest().number}" in error and "of another process" in error
    assert net.run("wb.resume(run, epochs=4).wait().step") == 12  # a run of this process knows how it was begun

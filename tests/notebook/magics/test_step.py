"""`%step`: a step node by node, in tables."""

from collections.abc import Iterator

import numpy as np
import pytest
from IPython.core.error import UsageError

import workbench as wb
from tests.notebook.conftest import Notebook
from tests.notebook.magics.test_extension import completed
from tests.notebook.magics.test_profile_step import NET, SETUP, weight
from workbench.errors import NotFound, PreconditionNotMet
from workbench.executors.inspection.stepper import Stepper
from workbench.experiments.launch.cluster import TrainingCluster
from workbench.notebook.steps.stepping import Stepped
from workbench.parallel.cluster.trained import ClusterExecutor


@pytest.fixture
def net(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("CPU_NUM", "2")
    wb.enable_static()
    notebook.run(NET)
    notebook.run(SETUP)
    yield notebook
    wb.disable_static()


def numbers(shown: Stepped) -> list[int]:
    return [node.number for node in shown.nodes]


def test_it_begins_a_step_and_goes_on_with_it(net: Notebook) -> None:
    first = net.run("%step exe feed")
    assert isinstance(first, Stepped) and numbers(first) == [0]
    assert isinstance(net["stepper"], Stepper) and first.stepper is net["stepper"]
    assert numbers(net.run("%step")) == [1]
    assert numbers(net.run("%step -n 3")) == [2, 3, 4]
    until = net.run("%step --until all_reduce")
    assert until.nodes[0].number == 5 and until.nodes[-1].type == "all_reduce"
    assert [n.type for n in until.nodes].count("all_reduce") == 1
    before = weight()
    rest = net.run("%step --all")
    assert rest.nodes[-1].type == "sgd"
    np.testing.assert_array_equal(weight(), before)
    net.run("stepper.finish()")
    changed = weight()
    net.run("static.Executor().run(net_startup)\nexe = static.ParallelExecutor(False, loss.name, net)")
    np.testing.assert_array_equal(weight(), before)
    net.run("exe.run([], feed=feed)")
    np.testing.assert_array_equal(weight(), changed)


def test_the_table_has_a_line_per_node(net: Notebook) -> None:
    shown = net.run("%step exe feed -n 2")
    head, first, second, ahead = repr(shown).splitlines()
    assert head.split() == ["#", "op", "device", "reads", "makes", "built", "at"]
    assert first.split()[:3] == ["0", "mul", "0"] and second.split()[:3] == ["1", "mul", "1"]
    assert "x[3, 4], net.fc_0.w_0[4, 3]" in first and "net.fc_0.tmp_0[3, 3]" in first
    assert "cell In[" in first  # where it was built
    total = len(net["stepper"]._step.rows)
    assert ahead.startswith(f"2 of {total} nodes have run, next is #2 elementwise_add: `%step` goes on")
    html = shown._repr_html_()
    assert html.count("<tr") == 3 and "net.fc_0.tmp_0[3, 3]" in html and "elementwise_add" in html
    end = repr(net.run("%step --all")).splitlines()[-1]
    assert end == f"all {total} nodes have run: stepper.finish() applies the step, stepper.abort() discards it"
    assert repr(net.run("%step")) == end  # nothing is left


def test_until_takes_variables_numbers_and_a_device(net: Notebook) -> None:
    assert numbers(net.run("%step exe feed --until 3")) == [0, 1, 2, 3]
    shown = net.run("%step exe feed --until net.fc_0.tmp_1 --device 1")
    assert [(n.outputs[0].name, n.device) for n in shown.nodes][-1] == ("net.fc_0.tmp_1", 1)
    assert net.run('stepper.value("net.fc_0.tmp_1", 1).shape') == (3, 3)
    error = net.fail("%step --until tank")
    assert isinstance(error, NotFound) and "Did you mean 'tanh'" in str(error)
    assert numbers(net.run("%step"))  # the step has not been lost


def test_steps_have_names(net: Notebook) -> None:
    net.run("other_feed = {'x': np.zeros((2, 4), 'float32')}")
    net.run("%step exe feed --as one\n%step exe other_feed --as two -n 2")
    assert numbers(net.run("%step --as one")) == [1]
    assert numbers(net.run("%step --as two")) == [2]
    before = net["one"]
    net.run("%step exe feed --as one")  # begins anew
    assert net["one"] is not before and before.is_over


def test_wrong_arguments_are_one_line(net: Notebook) -> None:
    for line, words in {
        "%step": "there is no step called 'stepper'",
        "%step exee feed": "Did you mean 'exe'",
        "%step exe fed": "Did you mean 'feed'",
        "%step exe feed -n 0": "-n takes a number of at least 1",  # and has begun nothing
        "%step exe feed --as loss": "'loss' is in use for something else",
        "%step --as feed": "'feed' is no step",
        "%step exe feed --untill mul": "Did you mean '--until'",
    }.items():
        error = net.fail(line)
        assert isinstance(error, UsageError) and words in str(error), line
        assert "stepper" not in net
    net.run("%step exe feed\nstepper.abort()")
    assert isinstance(net.fail("%step"), PreconditionNotMet)


def test_of_ranks_it_says_which_devices_make_the_same_step(net: Notebook) -> None:
    ranks = TrainingCluster.__new__(TrainingCluster)
    ranks.size, ranks.devices = 2, 3
    for name, value in (("ranks", ranks), ("trained", ClusterExecutor(ranks, net["net"]))):
        net.shell.user_ns[name] = value
        error = net.fail(f"%step {name} feed")
        assert isinstance(error, UsageError) and "2 ranks" in str(error) and "CPU_NUM=6" in str(error)


def test_a_program_without_data_needs_no_feed(net: Notebook) -> None:
    net.run("%%static_program plain\nout = wb.full([2], 3.0) + 1.0")
    net.run("exe2 = static.ParallelExecutor(False, None, plain)")
    assert [n.type for n in net.run("%step exe2 --all").nodes][:1] == ["fill_constant"]


def test_a_compiled_program_is_stepped_through(net: Notebook) -> None:
    net.run("compiled = static.CompiledProgram(net)")
    assert numbers(net.run("%step compiled feed -n 2")) == [0, 1]


def test_completion(net: Notebook) -> None:
    assert completed(net, "%step ex") == ["exe"]
    assert completed(net, "%step exe fe") == ["feed"]
    assert completed(net, "%step exe feed --until mul_") == ["mul_grad"]
    assert "net.fc_0.tmp_1" in completed(net, "%step --until net.fc_0.t")
    assert completed(net, "%step --u") == ["--until"]
    net.run("%step exe feed")
    assert completed(net, "%step --as st") == ["stepper"]

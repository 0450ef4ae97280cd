"""`%%static_program`: what a cell builds, binds, shows, and takes back when it fails."""

import numpy as np
import pytest
from IPython.core.error import UsageError

from tests.notebook.conftest import Notebook
from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.framework.program.guard import default_main_program, default_startup_program, in_static_mode
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, OPTIMIZE

NET = """%%static_program net {options}
x = static.data("x", [None, 4])
h = static.nn.fc(x, 8, activation="relu")
loss = wb.mean(static.nn.fc(h, 3))
wb.optimizer.Adam(0.1).minimize(loss)
"""


def var_names(program: Program) -> list[str]:
    return [v.name for v in program.list_vars()]


def test_the_cell_builds_a_main_and_a_startup_program(notebook: Notebook) -> None:
    notebook.run(NET.format(options=""))
    main, startup = notebook["net"], notebook["net_startup"]
    assert (main.name, startup.name) == ("net", "net_startup")
    assert notebook["loss"].block.program is main
    assert [p.name for p in main.all_parameters()] == [p.name for p in startup.all_parameters()]
    static = notebook["static"]
    exe = static.Executor()
    exe.run(startup)
    (value,) = exe.run(main, feed={"x": np.ones((2, 4), "float32")}, fetch_list=[notebook["loss"]])
    assert np.isfinite(value).all()


def test_what_is_made_inside_is_called_after_the_program(notebook: Notebook) -> None:
    notebook.run(NET.format(options=""))
    names = [n for n in var_names(notebook["net"]) if n != "x"]
    assert names and all(n.startswith("net.") and not n.startswith("net.net.") for n in names)
    assert "net.fc_0.w_0" in names


def test_names_the_user_fixes_are_kept(notebook: Notebook) -> None:
    notebook.run(
        "%%static_program net\n"
        "x = static.data('image', [None, 4])\n"
        "y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(name='shared'), bias_attr=False)"
    )
    assert "image" in var_names(notebook["net"])
    assert [p.name for p in notebook["net"].all_parameters()] == ["shared"]


def test_running_the_cell_again_gives_the_same_names(notebook: Notebook) -> None:
    notebook.run(NET.format(options=""))
    first = notebook["net"]
    notebook.run(NET.format(options=""))
    assert notebook["net"] is not first
    assert var_names(notebook["net"]) == var_names(first)
    assert str(notebook["net"]) == str(first)


def test_the_cell_is_static_and_the_notebook_stays_dynamic(notebook: Notebook) -> None:
    notebook.run("%%static_program net\ninside = wb.in_dynamic_mode()")
    assert notebook["inside"] is False
    assert not in_static_mode()


def test_startup_and_test_programs_take_the_given_names(notebook: Notebook) -> None:
    notebook.run(NET.format(options="--startup init --test evaluation"))
    assert "net_startup" not in notebook
    assert notebook["init"].name == "init"
    evaluation = notebook["evaluation"]
    assert evaluation.name == "evaluation"
    assert not any(op.role & (BACKWARD | OPTIMIZE) for op in evaluation.all_ops())
    assert any(op.role & OPTIMIZE for op in notebook["net"].all_ops())


def test_a_seed_gives_the_same_values_every_time(notebook: Notebook) -> None:
    values = []
    for seed in (7, 7, 8):
        notebook.run(NET.format(options=f"--seed {seed}"))
        assert notebook["net"].random_seed == notebook["net_startup"].random_seed == seed
        notebook.run("static.Executor().run(net_startup)")
        values.append(notebook.run("static.global_scope().find_var('net.fc_0.w_0').get_tensor().numpy()"))
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


def test_the_last_line_is_the_cells_value(notebook: Notebook) -> None:
    assert notebook.run("%%static_program net\nx = static.data('x', [None, 4])\nx.shape") == (-1, 4)
    assert notebook.run("%%static_program net\nx = static.data('x', [None, 4])") is None
    assert notebook.run("%%static_program net\nx = 3\nif x:\n    x") is None


def test_what_minimize_returns_is_not_printed_below_the_summary(notebook: Notebook) -> None:
    assert notebook.run(NET.format(options="")) is None
    ops, pairs = notebook.run(NET.format(options="").replace("wb.opt", "done = wb.opt") + "done[0], done[1], 1")[:2]
    assert [op.type for op in ops] == ["adam"] * 4 and len(pairs) == 4


def test_definitions_are_the_users(notebook: Notebook) -> None:
    notebook.run(
        "%%static_program net\n"
        "x = static.data('x', [None, 4])\n"
        "width = 5\n"
        "def layer(v):\n    return static.nn.fc(v, width)\n"
        "outs = [layer(x) for _ in range(2)]"
    )
    assert [v.shape for v in notebook["outs"]] == [(-1, 5), (-1, 5)]
    assert notebook.run("layer.__name__, width") == ("layer", 5)


def test_shell_syntax_and_braces_are_left_to_the_cell(notebook: Notebook) -> None:
    notebook.run("%%static_program net\nvalue = {'a': '$HOME {x}'}\nlsmagic = %lsmagic")
    assert notebook["value"] == {"a": "$HOME {x}"}


def test_the_summary_is_shown_unless_quiet(notebook: Notebook) -> None:
    notebook.run(NET.format(options="--test net_test"))
    (shown,) = notebook.shown
    assert {"text/plain", "text/html"} <= set(shown)
    assert "net_test" in shown["text/plain"] and "x: float32[?, 4]" in shown["text/plain"]
    notebook.run(NET.format(options="--quiet"))
    assert notebook.shown == []


# Failure


def snapshot(notebook: Notebook) -> dict[str, object]:
    changing = {"_i", "_ii", "_iii", "_ih", "_oh", "_dh", "In", "Out", "_", "__", "___", "_exit_code"}
    names = notebook.shell.user_ns.items()
    return {k: v for k, v in names if k not in changing and not (k[:2] == "_i" and k[2:].isdecimal())}


@pytest.mark.filterwarnings("ignore:To exit:UserWarning")
@pytest.mark.parametrize("error", ["1 / 0", "static.nn.fc(h, -3)", "raise KeyboardInterrupt", "raise SystemExit"])
def test_a_failing_cell_changes_nothing(notebook: Notebook, error: str) -> None:
    notebook.run(NET.format(options="--test net_test"))
    notebook.run("kept, width = [1], 3")
    before = snapshot(notebook)
    programs = default_main_program(), default_startup_program()
    text = str(notebook["net"])
    cell = NET.format(options="--test net_test") + f"width = 4\nnew = 5\ndel kept\n{error}\n"
    raised = notebook.fail(cell)
    assert not isinstance(raised, AssertionError)
    assert snapshot(notebook) == before
    assert (default_main_program(), default_startup_program()) == programs
    assert str(notebook["net"]) == text
    assert not in_static_mode()
    notebook.run(NET.format(options=""))
    assert str(notebook["net"]) == text


def test_names_of_a_first_run_that_fails_are_unbound(notebook: Notebook) -> None:
    notebook.fail(NET.format(options="") + "1 / 0")
    assert not {"net", "net_startup", "x", "h", "loss"} & set(notebook.shell.user_ns)


def test_the_cell_may_not_bind_the_programs_name(notebook: Notebook) -> None:
    error = notebook.fail("%%static_program loss\nx = static.data('x', [None, 4])\nloss = wb.mean(x)")
    assert isinstance(error, UsageError) and "the cell itself binds 'loss'" in str(error)
    assert "loss" not in notebook and "x" not in notebook


# Messages


def test_an_error_of_the_cell_shows_its_line(notebook: Notebook) -> None:
    notebook.fail("%%static_program net\nx = static.data('x', [None, 4])\n\nz = 1 / 0\n")
    number = notebook.shell.execution_count - 1
    assert f"Cell In[{number}], line 4" in notebook.printed
    assert "----> 4 z = 1 / 0" in notebook.printed


def test_an_error_in_a_function_of_the_cell_shows_both_lines(notebook: Notebook) -> None:
    notebook.fail("%%static_program net\ndef layer():\n    return 1 / 0\n\nlayer()\n")
    assert "----> 5 layer()" in notebook.printed
    assert "----> 3     return 1 / 0" in notebook.printed


def test_a_function_of_the_cell_called_later_shows_its_line(notebook: Notebook) -> None:
    notebook.run("%%static_program net\ndef layer():\n    return 1 / 0\n")
    defined = notebook.shell.execution_count - 1
    notebook.fail("layer()")
    assert f"Cell In[{defined}], line 3" in notebook.printed
    assert notebook.run("import inspect\ninspect.getsource(layer)") == "def layer():\n    return 1 / 0\n"


def test_a_syntax_error_shows_its_line(notebook: Notebook) -> None:
    error = notebook.fail("%%static_program net\nx = 3\ny = = 4\n")
    assert isinstance(error, SyntaxError) and error.lineno == 3
    assert f"Cell In[{notebook.shell.execution_count - 1}], line 3" in notebook.printed
    assert "interactiveshell.py" not in notebook.printed


def test_a_building_error_names_cell_and_line_without_our_frames(notebook: Notebook) -> None:
    cell = "%%static_program net\nx = static.data('x', [None, 4])\ny = static.data('y', [None, 3])\nz = x + y\n"
    error = notebook.fail(cell)
    number = notebook.shell.execution_count - 1
    assert isinstance(error, InvalidArgument)
    assert f"cell In[{number}], line 4" in str(error)
    assert "----> 4 z = x + y" in notebook.printed
    assert "File " not in notebook.printed, "frames of workbench or IPython are shown"
    assert error.__traceback__ is not None and error.__traceback__.tb_next is not None


def test_a_variable_of_another_program_is_refused_by_name(notebook: Notebook) -> None:
    notebook.run("%%static_program one\nx = static.data('x', [None, 4])\nh = static.nn.fc(x, 3)")
    error = notebook.fail("%%static_program two\ny = static.nn.fc(h, 2)")
    assert isinstance(error, InvalidArgument)
    assert "'one.fc_0.tmp_1' of one" in str(error) and "built in two" in str(error)
    both = "wb.concat([static.data('y', [None, 3]), h], 1)"
    assert "'one.fc_0.tmp_1' of one" in str(notebook.fail(f"%%static_program two\n{both}"))


def test_a_clone_may_be_built_on_by_the_originals_variables(notebook: Notebook) -> None:
    """Paddle programs do so: names are looked up in the program that is built."""
    notebook.run("%%static_program one\nx = static.data('x', [None, 4])\nh = static.nn.fc(x, 3)")
    notebook.run("wb.enable_static()\nclone = one.clone()\nwith static.program_guard(clone):\n    m = wb.mean(h)")
    notebook.run("wb.disable_static()")
    assert notebook["m"].block.program is notebook["clone"]


def test_a_run_time_error_names_the_cell_that_built_the_op(notebook: Notebook) -> None:
    notebook.run(
        "%%static_program net\nx = static.data('x', [None, None])\ny = static.data('y', [None, None])\nz = x + y\n"
    )
    built = notebook.shell.execution_count - 1
    error = notebook.fail(
        "static.Executor().run(net, fetch_list=[z],\n"
        "    feed={'x': np.ones((2, 3), 'float32'), 'y': np.ones((2, 5), 'float32')})"
    )
    assert isinstance(error, EnforceNotMet)
    assert f"cell In[{built}], line 4" in str(error)
    assert f"Cell In[{notebook.shell.execution_count - 1}], line 1" in notebook.printed
    assert "File " not in notebook.printed


def test_verbose_mode_shows_every_frame(notebook: Notebook) -> None:
    notebook.run("%xmode Verbose")
    notebook.fail("%%static_program net\nx = static.data('x', [None, 4])\nx + static.data('y', [None, 3])\n")
    assert "infix.py" in notebook.printed
    notebook.run("%xmode Context")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "required"),
        ("net --tset a", "Did you mean '--test'?"),
        ("net --seed three", "invalid int value: 'three'"),
        ("3net", "cannot be the name of a program"),
        ("class", "cannot be the name of a program"),
        ("_net", "cannot be the name of a program"),
        ("np", "'np' is a module in this notebook"),
        ("net --test net", "the programs need different names, got net and net_startup and net"),
        ("net --from mpl", "Did you mean 'mlp'?"),
        ("net --from np", "'np' is a module, not a program. Programs: 'mlp', 'mlp_startup'"),
        ("mlp --from mlp", "needs a new name"),
        ("net 'open", "cannot read the arguments"),
    ],
)
def test_a_wrong_line_is_explained_and_nothing_runs(notebook: Notebook, line: str, message: str) -> None:
    notebook.run("%%static_program mlp\nx = static.data('x', [None, 4])")
    before = snapshot(notebook)
    error = notebook.fail(f"%%static_program {line}\nran = True")
    assert isinstance(error, UsageError)
    assert message in str(error)
    assert "usage: " not in str(error) or "usage: %%static_program [" in str(error)
    assert "Traceback" not in notebook.printed and "UsageError" in notebook.printed
    assert snapshot(notebook) == before


def test_a_program_edited_into_nonsense_is_refused(notebook: Notebook) -> None:
    error = notebook.fail(
        "%%static_program net\n"
        "y = static.nn.fc(static.data('x', [None, 4]), 2)\n"
        "static.default_main_program().global_block().remove_op(0)"
    )
    assert isinstance(error, InvalidArgument) and "fc_0.tmp_0" in str(error)
    assert "net" not in notebook and "y" not in notebook

"""`--from`: a cell that goes on building on a copy of another program."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notebook.conftest import Notebook
from workbench.framework.names import UniqueNameGenerator
from workbench.framework.program.program import Program
from workbench.notebook.programs.extend import counters_after

NET = """%%static_program net --seed 1
x = static.data("x", [None, 4])
h = static.nn.fc(x, 8, activation="relu")
loss = wb.mean(static.nn.fc(h, 3))
"""
TRAINED = """%%static_program trained --from net
before = loss
wb.optimizer.SGD(0.1).minimize(loss)
"""
HEAD = """%%static_program head --from net
top = static.nn.fc(h, 2)
"""


def test_the_original_is_left_as_it_was(notebook: Notebook) -> None:
    notebook.run(NET)
    original, startup = str(notebook["net"]), str(notebook["net_startup"])
    program = notebook["net"]
    notebook.run(TRAINED)
    assert notebook["net"] is program
    assert (str(notebook["net"]), str(notebook["net_startup"])) == (original, startup)
    assert len(list(notebook["trained"].all_ops())) > len(list(program.all_ops()))


def test_the_users_names_mean_the_copy_in_the_cell_and_after_it(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run("kept, pair, table, number = loss.name, [x, h], {'loss': loss, 'k': 3}, 5\nlist_before = pair")
    notebook.run(TRAINED)
    for name in ("before", "x", "h", "loss"):
        assert notebook[name].block.program is notebook["trained"], name
    assert [v.block.program for v in notebook["pair"]] == [notebook["trained"]] * 2
    assert notebook["table"]["loss"].block.program is notebook["trained"]
    assert notebook["loss"].name == notebook["kept"]
    assert notebook["number"] == 5


def test_names_for_other_programs_stay(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run("backup = net.clone()\nmine = backup.global_block().var(loss.name)")
    notebook.run("%%static_program other\nu = static.data('x', [None, 4])")
    notebook.run(TRAINED)
    assert notebook["mine"].block.program is notebook["backup"]
    assert notebook["u"].block.program is notebook["other"]


def test_running_the_extension_again_starts_from_the_original(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run(TRAINED)
    first = str(notebook["trained"])
    notebook.run(TRAINED)
    assert str(notebook["trained"]) == first
    assert notebook["before"].block.program is notebook["trained"]


def test_two_extensions_of_one_program_in_any_order(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run(HEAD)
    head = str(notebook["head"])
    notebook.run(TRAINED)
    trained = str(notebook["trained"])
    notebook.run(HEAD)
    assert notebook["top"].block.program is notebook["head"]
    assert (str(notebook["head"]), str(notebook["trained"])) == (head, trained)
    notebook.run(NET)
    notebook.run(TRAINED)
    assert str(notebook["trained"]) == trained


def test_new_names_begin_with_the_extensions_own(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run(HEAD)
    notebook.run(HEAD.replace("head", "tail"))
    own = [[p.name for p in notebook[n].all_parameters()] for n in ("net", "head", "tail")]
    assert own[1] == [*own[0], "head.fc_0.w_0", "head.fc_0.b_0"]
    assert own[2] == [*own[0], "tail.fc_0.w_0", "tail.fc_0.b_0"]


def test_the_extension_shares_the_originals_parameters(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run(TRAINED)
    notebook.run(
        "exe = static.Executor()\n"
        "feed = {'x': np.arange(8, dtype='float32').reshape(2, 4)}\n"
        "exe.run(trained_startup)\n"
        "def look(program):\n    return exe.run(program, feed=feed, fetch_list=[loss])[0]\n"
        "start = look(net)\n"
        "steps = [look(trained) for _ in range(3)]\n"
        "end = look(net)"
    )
    assert notebook["start"] == notebook["steps"][0]
    assert notebook["end"] < notebook["steps"][2] < notebook["steps"][0]


def test_training_initialises_only_what_is_new(notebook: Notebook) -> None:
    """Fine-tuning: the extension's startup program also fills what the original has learned."""
    notebook.run(NET)
    notebook.run("static.Executor().run(net_startup)\nw = static.global_scope().find_var('net.fc_0.w_0').get_tensor()")
    notebook.run("w.set(np.full((4, 8), 2, 'float32'))")
    notebook.run(HEAD)
    notebook.run("nothing = []\n%train head nothing --steps 0")
    assert np.array_equal(notebook["w"].numpy(), np.full((4, 8), 2, "float32"))
    assert notebook.run("static.global_scope().find_var('head.fc_0.w_0') is not None")


@pytest.mark.parametrize("error", ["1 / 0", "raise KeyboardInterrupt"])
def test_a_failing_extension_restores_names_and_programs(notebook: Notebook, error: str) -> None:
    notebook.run(NET)
    notebook.run("pair = [x, h]")
    before = {n: notebook[n] for n in ("net", "net_startup", "x", "h", "loss", "pair")}
    text = str(notebook["net"])
    notebook.fail(HEAD + f"loss = top\n{error}")
    assert {n: notebook[n] for n in before} == before
    assert all(notebook[n] is before[n] for n in before)
    assert "head" not in notebook and "top" not in notebook
    assert str(notebook["net"]) == text


def test_a_program_built_without_the_magic_can_be_extended(notebook: Notebook) -> None:
    notebook.run(
        "plain, plain_startup = static.Program(), static.Program()\n"
        "wb.enable_static()\n"
        "with static.program_guard(plain, plain_startup):\n"
        "    x = static.data('x', [None, 4])\n"
        "    y = static.nn.fc(x, 3)\n"
        "wb.disable_static()"
    )
    notebook.run("%%static_program more --from plain\nz = static.nn.fc(y, 2)")
    names = [p.name for p in notebook["more"].all_parameters()]
    assert names == ["fc_0.w_0", "fc_0.b_0", "more.fc_0.w_0", "more.fc_0.b_0"]
    notebook.run("bare = static.Program()\ndel plain_startup")
    notebook.run("%%static_program more --from plain\nz = static.nn.fc(y, 2)")  # a program knows its own
    error = notebook.fail("%%static_program more --from bare\nz = static.nn.fc(y, 2)")
    assert "bare_startup" in str(error)


KEYS = st.text("ab", min_size=1, max_size=2)


@given(st.lists(st.tuples(KEYS, st.none() | KEYS), max_size=20), KEYS)
def test_counters_go_on_after_every_name_there_is(generated: list[tuple[str, str | None]], key: str) -> None:
    """Whatever a generator gave out before, the counters read from the names give nothing of it again."""
    program, generator = Program(), UniqueNameGenerator(namespace="n.")
    for layer, part in generated:
        name = generator(layer)
        name = generator(f"{name}.{part}") if part else name
        program.global_block().create_var(name, (1,))
    resumed = counters_after("n.", [program])
    taken = {v.name for v in program.list_vars()}
    assert resumed(key) not in taken
    assert resumed(f"n.{key}_0.{key}") not in taken

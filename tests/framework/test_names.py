"""Unique names: rules P-1 … P-8, as far as the framework makes them (layers: tests/builders/test_names.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.framework import toys
from tests.framework.models import data, parameter
from workbench.framework import names
from workbench.framework.names import UniqueNameGenerator, generate, grad_name
from workbench.framework.program.guard import default_main_program, program_guard
from workbench.framework.program.program import Program


def test_p1_one_counter_per_key_from_zero() -> None:
    assert [generate("fc"), generate("fc"), generate("mean"), generate("fc")] == ["fc_0", "fc_1", "mean_0", "fc_2"]


def test_p2_a_given_name_leaves_the_counter_alone() -> None:
    x, w = data("x", (-1, 4)), parameter("w", (4, 4))
    named = [toys.mul(x, w, name="foo").name, toys.mul(x, w, name="foo").name]
    assert named == ["foo.tmp_0", "foo.tmp_1"]
    assert toys.mul(x, w).name == "toy_mul_0.tmp_0"


def test_p3_p4_parameters_and_temporaries_count_under_their_layer() -> None:
    layer = generate("fc")
    generated = [generate(f"{layer}.{kind}") for kind in ("w", "b", "w", "tmp", "tmp")]
    assert generated == ["fc_0.w_0", "fc_0.b_0", "fc_0.w_1", "fc_0.tmp_0", "fc_0.tmp_1"]


def test_p5_outputs_of_one_op_share_its_layer() -> None:
    kept, mask = toys.dropout(data("x", (-1, 4)))
    assert [kept.name, mask.name] == ["toy_dropout_0.tmp_0", "toy_dropout_0.tmp_1"]
    assert toys.mean(kept).name == "mean_0.tmp_0"
    assert [v.name for v in toys.split(kept)] == ["toy_split_0.tmp_0", "toy_split_0.tmp_1"]


def test_p5_python_operators_count_under_tmp() -> None:
    x = data("x", (-1, 4))
    assert [toys.add(x, x, name="tmp").name for _ in range(2)] == ["tmp_0", "tmp_1"]


def test_p6_optimizer_state() -> None:
    assert generate("fc_0.w_0_moment1") == "fc_0.w_0_moment1_0"
    assert generate("learning_rate") == "learning_rate_0"


def test_p7_guard_starts_afresh_and_restores() -> None:
    generate("fc")
    with names.guard():
        assert generate("fc") == "fc_0"
    assert generate("fc") == "fc_1"


def test_p7_a_prefix_shows_at_both_levels() -> None:
    with names.guard("pre_"):
        assert generate(generate("fc") + ".w") == "pre_pre_fc_0.w_0"


def test_p7_guard_restores_after_an_error() -> None:
    generate("fc")
    with pytest.raises(KeyError), names.guard():
        generate("fc")
        raise KeyError
    assert generate("fc") == "fc_1"


def test_a_namespace_shows_once() -> None:
    with names.guard(UniqueNameGenerator(namespace="net.")):
        assert generate(generate("fc") + ".w") == "net.fc_0.w_0"


def test_a_copied_generator_goes_on_alone() -> None:
    first = UniqueNameGenerator()
    first("fc")
    second = first.copy()
    assert [first("fc"), first("fc"), second("fc")] == ["fc_1", "fc_2", "fc_1"]


def test_p8_gradients() -> None:
    assert grad_name("fc_0.w_0") == "fc_0.w_0@GRAD"
    assert data("x", (1,)).grad_name == "x@GRAD"
    assert names.EMPTY == "@EMPTY@"


def test_fresh_counters_over_one_program_never_reuse_a_variable() -> None:
    x = data("x", (-1, 4))
    first = toys.relu(x)
    with names.guard():
        second = toys.relu(x)
    assert first.name == "toy_relu_0.tmp_0" and second.name != first.name
    total = toys.add(first, second)
    assert default_main_program().global_block().ops[-1].input_arg_names == [first.name, second.name]
    assert total.op is default_main_program().global_block().ops[-1]


def test_the_same_names_in_another_program_are_free() -> None:
    first = toys.relu(data("x", (-1, 4)))
    with names.guard(), program_guard(Program()):
        assert toys.relu(data("x", (-1, 4))).name == first.name


# Threads


def in_threads(count: int, body: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failed


class Yielding(str):
    """A key that lets other threads run whenever it is looked up."""

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()


def test_outside_of_a_guard_threads_share_names_and_none_comes_twice() -> None:
    generated: list[str] = []
    begin = threading.Barrier(4, timeout=60)

    def generate() -> None:
        begin.wait()
        generated.extend([names.generate(Yielding("of_threads")) for _ in range(500)])

    in_threads(4, generate)
    assert len(generated) == len(set(generated)) == 2000


def test_a_guard_is_that_of_its_thread() -> None:
    """Another one, also one that is begun in it, goes on with the shared names."""
    shared: list[str] = []
    with names.guard():
        assert names.generate("beside") == "beside_0"
        in_threads(1, lambda: shared.append(names.generate("beside")))
        assert names.generate("beside") == "beside_1"
    in_threads(1, lambda: shared.append(names.generate("beside")))
    first, second = (int(name.removeprefix("beside_")) for name in shared)
    assert second == first + 1

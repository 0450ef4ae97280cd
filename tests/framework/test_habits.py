"""What PyTorch calls otherwise: the errors about it say Paddle's names, and these exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.errors import InvalidType
from workbench.framework.habits import KEYWORDS, METHODS, NAMES, suggest_attribute
from workbench.framework.keywords import suggest_keyword
from workbench.framework.op.recorder import recording

KINDS = {"Optimizer": wb.optimizer.Optimizer, "Layer": wb.nn.Layer, "Tensor": wb.Tensor}


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, known in METHODS.items() for name in known])
def test_a_class_has_what_is_proposed_and_not_what_is_asked_for(kind: str, name: str) -> None:
    proposed = re.findall(r"(?:^|(?:wb\.)|(?: and ))(\w+)", METHODS[kind][name].partition(";")[0])
    assert proposed and all(hasattr(KINDS[kind], one) or hasattr(wb, one) for one in proposed)
    assert hasattr(KINDS[kind], proposed[0]) and not hasattr(KINDS[kind], name)


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, known in NAMES.items() for name in known])
def test_a_module_says_where_to_find_it(module: str, name: str) -> None:
    value: Any = wb
    for part in NAMES[module][name].split(".")[1:]:
        value = getattr(value, part)
    with pytest.raises(
        AttributeError, match=rf"'{module}' has no attribute '{name}'. Here it is {NAMES[module][name]}$"
    ):
        getattr(importlib.import_module(module), name)


def net() -> Any:
    return wb.nn.Sequential(wb.nn.Linear(4, 3), wb.nn.ReLU())


def optimizer() -> Any:
    return wb.optimizer.Adam(0.01, parameters=net().parameters())


def x() -> Any:
    return wb.to_tensor(np.ones((2, 4), np.float32))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: optimizer().zero_grad(), "'Adam' object has no attribute 'zero_grad'. Here it is clear_grad()"),
        (lambda: optimizer().load_state_dict({}), "Here it is set_state_dict()"),
        (lambda: net().load_state_dict({}), "'load_state_dict'. Here it is set_state_dict()"),
        (lambda: x().requires_grad, "Here it is stop_gradient, which is True where requires_grad is False"),
        (lambda: x().size(0), "; size is the number of elements; x.shape is the list of sizes"),
        (lambda: x().sum(dim=1), "unexpected keyword argument 'dim'. Did you mean 'axis'?"),
        (lambda: wb.optimizer.Adam(betas=(0.9, 0.99)), "'betas'. Did you mean 'beta1' and 'beta2'?"),
        (lambda: next(net().parameters()), "; parameters() is a list; its first is parameters()[0]"),
        (lambda: net().train(False), "; eval() is what train(False) is elsewhere"),
    ],
)
def test_where_an_error_ends_a_script_it_says_what_to_write(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((AttributeError, TypeError)) as caught:
        call()
    error, before = caught.value, str(caught.value)
    for _ in range(2):  # it is said once, however often the error is shown
        if isinstance(error, AttributeError):
            suggest_attribute(error)
        else:
            suggest_keyword(error, error.__traceback__)
    assert str(error).endswith(said) and str(error).count(said) == 1 and before.split(".")[0] in str(error)


def test_an_error_about_what_is_not_ours_stays_as_it_is() -> None:
    class Optimizer:
        pass

    with pytest.raises(AttributeError) as caught:
        Optimizer().zero_grad()  # type: ignore[attr-defined]
    suggest_attribute(caught.value)
    assert str(caught.value) == "'Optimizer' object has no attribute 'zero_grad'"


@pytest.mark.parametrize(
    "call",
    [lambda: x().reshape(8, 1), lambda: x().tile(2, 1), lambda: wb.flip(x(), 0, 1), lambda: x().transpose(0, 1)],
    ids=["reshape", "tile", "flip", "transpose"],
)
def test_sizes_that_are_no_list_are_refused_not_taken_for_a_name(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidType, match="name is a str, got 1; sizes or axes are one list"):
        call()


def test_other_habits_of_newcomers() -> None:
    with pytest.raises(InvalidType, match=r"A shape is one list, as in zeros\(\[2, 3\]\)"):
        wb.zeros(2, 3)
    with pytest.raises(
        InvalidType, match=r"got a list of 2: .*; parameters come after it, as in SGD\(0.1, parameters="
    ):
        wb.optimizer.SGD(net().parameters())
    w = wb.to_tensor([1.0], stop_gradient=False)

    @wb.no_grad
    def double(value: Any) -> Any:
        return value * 2

    assert double(w).stop_gradient and double.__name__ == "double" and not (w * 2).stop_gradient
    assert not ({"dim", "bias", "betas"} - KEYWORDS.keys())

"""Feeding an optimizer the gradients of one's choice."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.builders.building import Session, program
from workbench.builders.data import data
from workbench.builders.initializers.initializer import Assign
from workbench.builders.param_attr import ParamAttr
from workbench.builders.variables import create_parameter
from workbench.framework.op.record import find_op
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable


def total(x: Variable) -> Variable:
    """The sum of all elements, shape [1]."""
    return find_op("reduce_sum")(x, reduce_all=True)


def weighted(values: dict[str, np.ndarray], **attrs: Any) -> Variable:
    """sum over names of parameter * feed `g_<name>`: the gradient of every parameter is its feed."""
    terms = []
    for name, value in values.items():
        attr = ParamAttr(name=name, initializer=Assign(value), **attrs.get(name, {}))
        w = create_parameter(value.shape, value.dtype, attr=attr)
        terms.append(total(w * data("g_" + name, value.shape, value.dtype)))
    terms = [t.astype(terms[0].dtype) for t in terms]
    return terms[0] if len(terms) == 1 else find_op("sum")(terms)


def trained(optimizer: Any, values: dict[str, np.ndarray], **attrs: Any) -> tuple[Session, Program]:
    """A session of the program `minimize(weighted(values))`."""
    with program() as (main, startup):
        optimizer.minimize(weighted(values, **attrs))
    return Session(main, startup), main


def history(optimizer: Any, start: Any, gradients: Sequence[Any], dtype: str = "float64", **attr: Any) -> np.ndarray:
    """Values of one parameter `w` after every step with the given gradients, `[steps, *shape]`."""
    start = np.asarray(start, dtype)
    session, _ = trained(optimizer, {"w": start}, w=attr)
    values = []
    for g in gradients:
        session.run([], g_w=np.asarray(g, dtype).reshape(start.shape))
        values.append(session.value("w"))
    return np.array(values)

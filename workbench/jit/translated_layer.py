"""TranslatedLayer: a saved program as a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.builders.flow.control_flow import cond, while_loop
from workbench.dygraph.tensor.parameter import EagerParamBase
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument
from workbench.framework.names import EMPTY
from workbench.framework.op.record import find_op
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.program.variable import Parameter
from workbench.jit.static_function import StaticFunction
from workbench.layers.layer import Layer
from workbench.ops.flow.control_flow import cond_op, while_op


class TranslatedLayer(Layer):
    """A layer whose `forward` is a program that was saved; `jit.load` makes such.

    Its parameters can be trained on: the program's ops are applied to tensors, recorded once per kind of input.

    Args:
        program: from `feeds` to `fetches`. values: of its persistable variables, by name.

    Raises:
        InvalidArgument: a value is missing.
    """

    def __init__(
        self, program: Program, feeds: Sequence[str], fetches: Sequence[str], values: Mapping[str, np.ndarray]
    ) -> None:
        super().__init__()
        vars(self).update(_program=program, _feeds=list(feeds), _fetches=list(fetches), _tensors={})
        for variable in program.persistables():
            if variable.name not in values:
                raise InvalidArgument(f"the saved model has no value for {variable.name!r}")
            self._take(variable, np.array(values[variable.name]))
        vars(self)["_run"] = StaticFunction(self._apply)

    def _take(self, variable: Any, value: np.ndarray) -> None:
        name = variable.name.replace(".", "_")
        if isinstance(variable, Parameter):
            tensor: Tensor = EagerParamBase(value, variable.name, trainable=variable.trainable)
            self.add_parameter(name, tensor)
        else:
            tensor = Tensor(value)
            tensor.name, tensor.persistable = variable.name, True
            self.register_buffer(name, tensor)
        self._tensors[variable.name] = tensor

    def forward(self, *inputs: Any) -> Any:
        """The outputs for inputs in the order in which they were saved; one alone, or a list."""
        if len(inputs) != len(self._feeds):
            raise InvalidArgument(
                f"the saved model takes {len(self._feeds)} inputs ({', '.join(self._feeds)}), got {len(inputs)}"
            )
        results = self._run(*inputs)
        return results[0] if len(results) == 1 else results

    def _apply(self, *inputs: Any) -> list[Any]:
        values: dict[str, Any] = {**self._tensors, **dict(zip(self._feeds, inputs, strict=True))}
        return _run(self._program.global_block(), values, self._fetches)

    def program(self, method_name: str = "forward") -> Program:
        """The saved program.

        Raises:
            InvalidArgument: another method than `forward`.
        """
        if method_name != "forward":
            raise InvalidArgument(f"the saved model has the method 'forward' alone, not {method_name!r}")
        return self._program


def _run(block: Block, values: dict[str, Any], wanted: Sequence[str]) -> list[Any]:
    """Apply the operators of a block to tensors."""
    for op in block.ops:
        values.update(_APPLIED.get(op.type, _applied)(op, values))
    return [values[name] for name in wanted]


def _branched(op: Operator, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a branch gives."""

    def side(which: str) -> Any:
        block, outs = op.attrs[f"{which}_block"], op.attrs[f"{which}_outs"]
        return lambda: _run(block, _captured(op, values), outs)

    return dict(zip(op.outputs["Out"], cond(values[op.inputs["Cond"][0]], side("true"), side("false")), strict=True))


def _looped(op: Operator, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a loop gives."""
    names, attrs = op.attrs["x_names"], op.attrs

    def inside(variables: Sequence[Any]) -> dict[str, Any]:
        return {**_captured(op, values), **dict(zip(names, variables, strict=True))}

    results = while_loop(
        lambda *variables: _run(attrs["cond_block"], inside(variables), [attrs["cond_out"]])[0],
        lambda *variables: _run(attrs["body_block"], inside(variables), attrs["body_outs"]),
        [values[name] for name in op.inputs["X"]],
    )
    return dict(zip(op.outputs["Out"], results, strict=True))


def _captured(op: Operator, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the blocks of a branch or a loop read from outside."""
    return {
        inner: values[name] for inner, name in zip(op.attrs["input_names"], op.inputs.get("Input", ()), strict=True)
    }


def _applied(op: Operator, values: Mapping[str, Any]) -> dict[str, Any]:
    """What an operator computes, by the names of its outputs."""
    record = find_op(op.type)
    inputs: list[Any] = []
    for slot in record.inputs:
        given = [values[name] for name in op.inputs.get(slot.name, ()) if name != EMPTY]
        inputs.append(given if slot.is_list and given else (given[0] if given else None))
    attrs = {name: value for name, value in op.attrs.items() if name not in (ROLE, ROLE_VAR)}
    returned = record(*inputs, **attrs)
    results = returned if len(record.outputs) > 1 else (returned,)
    outputs: dict[str, Any] = {}
    for slot, result in zip(record.outputs, results, strict=True):
        parts = result if slot.is_list else [result]
        outputs.update(zip(op.outputs.get(slot.name, ()), parts, strict=False))
    return outputs


_APPLIED = {cond_op.type: _branched, while_op.type: _looped}

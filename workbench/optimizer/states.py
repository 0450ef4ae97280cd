"""States of parameters: what they are, and where they are kept, in a program or as tensors of dynamic mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import global_variable
from workbench.errors import InvalidArgument
from workbench.framework import names
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import DType, bfloat16, float16, float32
from workbench.ops.math.cast import CAST
from workbench.ops.tensor.creation import FILL_CONSTANT

MASTER = "fp32_master"


class Accumulator(NamedTuple):
    """One kind of state a parameter has.

    Attributes:
        name: middle part of the variable's name, `fc_0.w_0_<name>_0` (P-6).
        slot: the update op's input slot; it writes the new value to `<slot>Out`.
        fill: initial value.
        scalar: shape [1] instead of the parameter's.
    """

    name: str
    slot: str
    fill: float = 0.0
    scalar: bool = False


class States(Protocol):
    """The states of the parameters of one program, or of tensors."""

    def of(self, parameter: Any, kind: Accumulator, prefix: str, dtype: DType) -> Any:
        """A state of a parameter, made and filled when it is first asked for.

        Args:
            prefix: put before the kind in its name. dtype: of the state, unless it is scalar.
        """

    def master(self, parameter: Any) -> Any:
        """The float32 copy of a parameter of half precision, made when it is first asked for."""

    def rate(self, dtype: DType) -> Any:
        """The learning rate, shape [1]."""


def wide(dtype: DType) -> DType:
    """The dtype of rates and powers: half precision would round them away."""
    return float32 if is_half(dtype) else dtype


def is_half(dtype: DType) -> bool:
    """Whether it is a floating dtype of two bytes."""
    return dtype in (float16, bfloat16)


class ProgramStates:
    """Persistable variables of a program, filled by its startup program (P-6).

    Args:
        program: whose parameters are updated.

    Attributes:
        startup: where states are filled from now on.
    """

    def __init__(self, program: Program, startup: Program) -> None:
        self.program, self.startup = program, startup
        self.variables: dict[tuple[str, str], Variable] = {}
        self.rate_variable: Variable | None = None

    def copied(self) -> ProgramStates:
        """The same states, to go back to."""
        copy = ProgramStates(self.program, self.startup)
        copy.variables, copy.rate_variable = dict(self.variables), self.rate_variable
        return copy

    def of(self, parameter: Any, kind: Accumulator, prefix: str, dtype: DType) -> Variable:
        key = parameter.name, kind.name
        if key not in self.variables:
            shape = (1,) if kind.scalar else parameter.shape
            self.variables[key] = self._filled(
                f"{parameter.name}_{prefix}{kind.name}", shape, wide(dtype) if kind.scalar else dtype, kind.fill
            )
        return self.variables[key]

    def master(self, parameter: Any) -> Variable:
        key = parameter.name, MASTER
        if key not in self.variables:
            name, startup = self._free(f"{parameter.name}_{MASTER}"), self.startup.global_block()
            for block in (self.program.global_block(), startup):
                copy = block.create_var(name, parameter.shape, float32, persistable=True, stop_gradient=True)
                self.variables.setdefault(key, copy)
            attrs = {"dtype": float32.name}
            startup.append_op(CAST.type, inputs={"X": parameter.name}, outputs={"Out": name}, attrs=attrs)
        return self.variables[key]

    def rate(self, dtype: DType) -> Variable:
        """The learning rate variable, shape [1]: persistable, or computed in every step."""
        assert self.rate_variable is not None, "the rate is made before updates are"
        return self.rate_variable

    def make_rate(self, dtype: DType, value: float) -> bool:
        """Have a rate; False if there is one already."""
        if self.rate_variable is not None:
            return False
        self.rate_variable = self._filled("learning_rate", (1,), wide(dtype), value)
        return True

    def take_rate(self, variable: Variable) -> None:
        """Have a rate that operators of the program compute, unless there is one already."""
        if self.rate_variable is None:
            self.rate_variable = variable

    def _filled(self, key: str, shape: tuple[int, ...], dtype: DType, value: float) -> Variable:
        block, startup = self.program.global_block(), self.startup.global_block()
        return global_variable(block, startup, self._free(key), shape, dtype, Constant(value))

    def _free(self, key: str) -> str:
        """A name after `key` that neither program has."""
        name = names.generate(key)
        blocks = self.program.global_block(), self.startup.global_block()
        while any(block.has_var(name) for block in blocks):  # counters started afresh over the same program
            name = names.generate(key)
        return name


class TensorStates:
    """Tensors of dynamic mode, made at the first step that needs them.

    What `load` was given before that is kept by name until then.
    """

    def __init__(self) -> None:
        self.tensors: dict[tuple[str, str], Any] = {}
        self._rates: dict[DType, Any] = {}
        self._rate = 0.0
        self._given: dict[str, Any] = {}

    def of(self, parameter: Any, kind: Accumulator, prefix: str, dtype: DType) -> Any:
        tensor = self.tensors.get((parameter.name, kind.name))
        if tensor is None:
            shape = (1,) if kind.scalar else tuple(parameter.shape)
            filled = FILL_CONSTANT(shape=shape, value=kind.fill, dtype=(wide(dtype) if kind.scalar else dtype).name)
            tensor = self._keep(parameter.name, kind.name, f"{parameter.name}_{prefix}{kind.name}", filled)
        return tensor

    def master(self, parameter: Any) -> Any:
        copy = self.tensors.get((parameter.name, MASTER))
        if copy is None:
            cast = CAST(parameter, dtype=float32.name)
            copy = self._keep(parameter.name, MASTER, f"{parameter.name}_{MASTER}", cast)
        return copy

    def _keep(self, parameter: str, kind: str, key: str, tensor: Any) -> Any:
        tensor.name, tensor.stop_gradient = names.generate(key), True
        self.tensors[parameter, kind] = tensor
        given = self._take(key, tensor.name)
        if given is not None:
            _set(tensor, given)
        return tensor

    def _take(self, key: str, name: str) -> Any:
        """What was given for a state: under its name, or one that differs in the number at the end alone."""
        name_given = name if name in self._given else next((n for n in self._given if _stem(n) == key), None)
        return None if name_given is None else self._given.pop(name_given)

    def rate(self, dtype: DType) -> Any:
        """The learning rate in the dtype that updates of a parameter take."""
        kind = wide(dtype)
        if kind not in self._rates:
            rate = FILL_CONSTANT(shape=(1,), value=self._rate, dtype=kind.name)
            rate.name = names.generate("learning_rate")
            self._rates[kind] = rate
        return self._rates[kind]

    def set_rate(self, value: float) -> None:
        """Have another learning rate."""
        if value == self._rate:
            return
        self._rate = value
        for tensor in self._rates.values():
            tensor.set_value(np.full((1,), value, np.asarray(tensor).dtype))

    def listed(self, kinds: Iterable[str]) -> dict[str, Any]:
        """The states by their names, all of a kind together."""
        return {tensor.name: tensor for kind in kinds for (_, own), tensor in self.tensors.items() if own == kind}

    def masters(self) -> dict[str, Any]:
        """The float32 copies, by the names of their parameters."""
        return {parameter: tensor for (parameter, kind), tensor in self.tensors.items() if kind == MASTER}

    def load(self, states: Mapping[str, Any], masters: Mapping[str, Any]) -> None:
        """Set the states there are; keep the others until they are made.

        Raises:
            InvalidArgument: a state of another shape; nothing is changed.
        """
        own = {tensor.name: tensor for (_, kind), tensor in self.tensors.items() if kind != MASTER}
        stems = {_stem(name): tensor for name, tensor in own.items()}
        entries = [(name, own.get(name, stems.get(_stem(name))), value) for name, value in states.items()]
        copies = self.masters()
        entries += [(f"{name}_{MASTER}_0", copies.get(name), value) for name, value in masters.items()]
        for name, tensor, value in entries:
            if tensor is not None and list(np.shape(value)) != list(tensor.shape):
                expected, got = list(tensor.shape), list(np.shape(value))
                raise InvalidArgument(
                    f"the state {name!r} has another shape\n  expected: {expected}\n  got:      {got}"
                )
        for name, tensor, value in entries:
            if tensor is None:
                self._given[name] = np.array(value)
            else:
                _set(tensor, value)


def _stem(name: str) -> str:
    """A name without the number that tells it from others of the same key."""
    return re.sub(r"_\d+$", "", name)


def _set(tensor: Any, value: Any) -> None:
    kept = np.asarray(tensor)
    given = np.asarray(value)
    if given.shape != kept.shape:
        raise InvalidArgument(
            f"the state {tensor.name!r} has another shape\n"
            f"  expected: {list(kept.shape)}\n  got:      {list(given.shape)}"
        )
    tensor.set_value(given.astype(kept.dtype))

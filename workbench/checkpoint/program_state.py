"""The values of a program's variables, in a scope and as dictionaries: `Program.state_dict`, `Variable.get_value` …"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from workbench.checkpoint.files import read_tensors
from workbench.checkpoint.program_files import PARAMS, model_prefix
from workbench.dygraph.tensor.methods import Tensor
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, ShapeError
from workbench.framework.notice import tell
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Parameter, Variable
from workbench.runtime.storage.scope import Scope, global_scope

MODES = ("all", "param", "opt")


def get_value(variable: Variable, scope: Scope | None = None) -> Tensor:
    """A copy of what a scope holds for a variable.

    Raises:
        InvalidType: no Scope. PreconditionNotMet: no value is there.
    """
    holder = _scope(scope).find_var(variable.name)
    if holder is None or not holder.tensor.initialized:
        raise PreconditionNotMet(f"variable {variable.name!r} has no value in the scope; run the startup program first")
    return Tensor(np.array(holder.tensor.array))


def set_value(variable: Variable, value: Any, scope: Scope | None = None) -> None:
    """Write what a scope holds for a variable.

    Raises:
        InvalidType: no Scope, or another dtype. PreconditionNotMet: no value was there. ShapeError: another shape.
    """
    target = _scope(scope)
    now, array = get_value(variable, target).array, np.asarray(value)
    if array.shape != now.shape:
        raise ShapeError(f"value for variable {variable.name!r}", list(now.shape), list(array.shape))
    if array.dtype != now.dtype:
        raise InvalidType(f"variable {variable.name!r} holds {now.dtype}, got a value of {array.dtype}")
    target.get(variable.name).get_tensor().set(array)


def state_dict(program: Program, mode: str = "all", scope: Scope | None = None) -> dict[str, Tensor]:
    """Copies of all persistable values, of the parameters' ("param") or of the others' ("opt").

    Raises:
        InvalidArgument: another mode. PreconditionNotMet: a value is missing.
    """
    if mode not in MODES:
        raise InvalidArgument(f"state_dict's mode is one of {', '.join(MODES)}, got {mode!r}")
    chosen = {v.name: v for v in program.persistables() if mode == "all" or (mode == "param") == _is_parameter(v)}
    return {name: get_value(variable, scope) for name, variable in chosen.items()}


def set_state_dict(program: Program, state: Mapping[str, Any], scope: Scope | None = None) -> None:
    """Write values by the names of a program's persistable variables; names that it does not have get a notice.

    Raises:
        InvalidType, ShapeError, PreconditionNotMet: as for `set_value`; nothing is written then.
    """
    known = {v.name: v for v in program.persistables()}
    _say_unknown(set(state) - set(known))
    chosen = {name: np.asarray(value) for name, value in state.items() if name in known}
    before = {name: get_value(known[name], scope) for name in chosen}
    try:
        for name, value in chosen.items():
            set_value(known[name], value, scope)
    except Exception:
        for name, old in before.items():
            set_value(known[name], old.array, scope)
        raise


def load_program_state(model_path: str | os.PathLike[str], var_list: Iterable[Any] | None = None) -> dict[str, Any]:
    """The values that `static.save` wrote, as arrays by name.

    Args:
        var_list: the variables wanted; all by default.

    Raises:
        NotFound: a variable is not in the file. InvalidArgument: no such file of ours. OSError: it cannot be read.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2, name="fc")
        >>> static.Executor().run(static.default_startup_program())
        []
        >>> static.save(static.default_main_program(), "model")
        >>> sorted(static.load_program_state("model"))
        ['fc.b_0', 'fc.w_0']
    """
    path = model_prefix(model_path) + PARAMS
    arrays = read_tensors(path)[0]
    if var_list is None:
        return arrays
    names = [v if isinstance(v, str) else v.name for v in var_list]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise NotFound(f"{path} holds no value of {', '.join(missing)}")
    return {name: arrays[name] for name in names}


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Write values, as `load_program_state` gives them, into the global scope. Raises: as for `Program.set_state_dict`.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2, name="fc")
        >>> static.Executor().run(static.default_startup_program())
        []
        >>> program = static.default_main_program()
        >>> static.set_program_state(program, {"fc.b_0": np.ones(2, np.float32)})
        >>> program.state_dict("param")["fc.b_0"].tolist()
        [1.0, 1.0]
    """
    set_state_dict(program, state_dict)


def _is_parameter(variable: Variable) -> bool:
    return isinstance(variable, Parameter)


def _scope(scope: Any) -> Scope:
    if scope is None:
        return global_scope()
    if not isinstance(scope, Scope):
        raise InvalidType(f"expected a Scope, got {scope!r}")
    return scope


def _say_unknown(names: set[str]) -> None:
    if names:
        tell(f"the program has no variables {', '.join(sorted(names))}; their values are left out")

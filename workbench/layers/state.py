"""What a layer's parameters and buffers hold, as one dictionary, and setting them from one."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import InvalidType, described
from workbench.layers.hooks import Hook, Hooks
from workbench.layers.tree import LayerTree
from workbench.layers.values import set_value

__all__ = ["LayerState"]


class LayerState(LayerTree):
    """State dictionaries: structured names -> parameters and the buffers that are saved."""

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        super().__init__(name_scope, dtype)
        vars(self)["_state_dict_hooks"] = Hooks()

    def register_state_dict_hook(self, hook: Callable[[dict[str, Any]], Any]) -> Hook:
        """Have `hook(state)` called with what `state_dict` found; what it returns, if not None, takes its place."""
        return self._state_dict_hooks.add(hook)

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """The parameters and saved buffers of this layer and those below it, by structured names.

        The values are the layer's own tensors, not copies.

        Args:
            destination: a dictionary to add to.
            structured_name_prefix: put before every name.
            use_hook: call the hooks of `register_state_dict_hook`.

        Example:
            >>> list(wb.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        return self._collect(destination, include_sublayers, structured_name_prefix, use_hook, saved_only=True)

    def to_static_state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """`state_dict` with the buffers that are not saved."""
        return self._collect(destination, include_sublayers, structured_name_prefix, use_hook, saved_only=False)

    def _collect(
        self, into: dict[str, Any] | None, include_sublayers: bool, prefix: str, use_hook: bool, saved_only: bool
    ) -> dict[str, Any]:
        state = OrderedDict() if into is None else into
        for table in (self._parameters, self._buffers):
            for name, value in table.items():
                if value is not None and not (saved_only and name in self._unsaved_buffers):
                    state[prefix + name] = value
        for name, layer in self._sub_layers.items() if include_sublayers else ():
            if layer is not None:
                layer._collect(state, True, f"{prefix}{name}.", use_hook, saved_only)
        for hook in self._state_dict_hooks.in_order() if use_hook else ():
            changed = hook(state)
            state = state if changed is None else changed
        return state

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Give the parameters and saved buffers the values of a dictionary.

        What the dictionary lacks, or has in another shape, is left as it is, with a warning.

        Args:
            state_dict: tensors or arrays by name; dtypes must be those of the layer.
            use_structured_name: the names are structured ones; else those of the parameters themselves
                (`linear_0.w_0`).

        Returns:
            the names without a value, and the names of the dictionary that are of no use.

        Raises:
            InvalidType: no dictionary, or a value of another dtype; nothing is changed.

        Example:
            >>> net, other = wb.nn.Linear(2, 3), wb.nn.Linear(2, 3)
            >>> net.set_state_dict(other.state_dict())
            ([], [])
        """
        if not isinstance(state_dict, Mapping):
            raise InvalidType(f"set_state_dict takes a dictionary of tensors, got {described(state_dict)}")
        missing: list[str] = []
        matching: dict[str, tuple[Any, Any]] = {}
        for name, tensor in self.state_dict(use_hook=False).items():
            key = name if use_structured_name else tensor.name
            objection = _objection(key, state_dict, tensor)
            if objection is None:
                matching[key] = (tensor, state_dict[key])
            else:
                missing.append(key)
                warnings.warn(f"Skip loading for {name}. {objection}", stacklevel=2)
        for key, (tensor, value) in matching.items():
            _require_dtype(key, tensor, value)
        for tensor, value in matching.values():
            set_value(tensor, value)
        return missing, [key for key in state_dict if key not in matching]

    set_dict = set_state_dict
    load_dict = set_state_dict


def _objection(key: str, state: Mapping[str, Any], tensor: Any) -> str | None:
    if state.get(key) is None:
        return f"{key} is not found in the provided dict."
    shape, expected = list(getattr(state[key], "shape", ())), list(tensor.shape)
    if shape == expected:
        return None
    return f"{key} receives a shape {shape}, but the expected shape is {expected}."


def _require_dtype(key: str, tensor: Any, value: Any) -> None:
    given = getattr(value, "dtype", None)
    if given is not None and tensor.dtype != given:
        raise InvalidType(f"{key} has another dtype\n  expected: {tensor.dtype}\n  got:      {given}")

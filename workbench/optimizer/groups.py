"""Parameters in groups, each with options of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, did_you_mean
from workbench.framework.program.variable import Variable
from workbench.optimizer.checks import checked_parameters

Check = Callable[[str, str, Any], Any]


class GroupOption(NamedTuple):
    """What a group may have of its own.

    Attributes:
        field: of the optimizer, which the value replaces. check: `(owner, argument, value)` -> the value.
        attribute: of the update op, which gets the value; none if empty.
    """

    field: str
    check: Check
    attribute: str = ""


def of_the_op(**checks: Check) -> dict[str, GroupOption]:
    """Options that the update op has as attributes of the same names."""
    return {name: GroupOption(f"_{name}", check, name) for name, check in checks.items()}


class Groups:
    """What an optimizer updates.

    Args:
        owner: the optimizer's name, for messages.
        parameters: None, a list of parameters, or a list of dicts `{"params": [...], option: value}`.
        options: the options a group may have.

    Attributes:
        parameters: of all groups, None for all there are.

    Raises:
        InvalidType, InvalidArgument: no list, no parameter, an unknown option, or a parameter in two groups.
    """

    def __init__(self, owner: str, parameters: Any, options: Mapping[str, GroupOption]) -> None:
        self._own: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self.parameters: list[Any] | None
        if not _is_grouped(parameters):
            self.parameters = checked_parameters(owner, parameters)
            return
        self.parameters = []
        for number, group in enumerate(parameters):
            self._add(owner, number, group, options)

    def _add(self, owner: str, number: int, group: Any, options: Mapping[str, GroupOption]) -> None:
        if not isinstance(group, dict) or "params" not in group:
            raise InvalidType(f"{owner}: a group of parameters is a dict with 'params', got {group!r}")
        fields = {}
        for argument, value in group.items():
            if argument == "params":
                continue
            if argument not in options:
                hint = did_you_mean(argument, options)
                raise InvalidArgument(f"{owner}: a group of parameters has no option {argument!r}.{hint}")
            option = options[argument]
            fields[option.field] = option.check(owner, argument, value)
        members = group["params"]
        for parameter in checked_parameters(owner, members if isinstance(members, list | tuple) else [members]) or ():
            name = parameter if isinstance(parameter, str) else parameter.name
            if name in self._own:
                raise InvalidArgument(f"{owner}: parameter {name!r} is in two groups")
            self._own[name], self._numbers[name] = fields, number
            self.parameters = [*(self.parameters or ()), parameter]

    def number_of(self, parameter: Any) -> int:
        """Which group a parameter belongs to, counted from 0; -1 without groups."""
        return self._numbers.get(parameter.name, -1)

    def fields_of(self, parameter: Any) -> dict[str, Any] | None:
        """What the group of a parameter has instead of the optimizer's fields; None without groups."""
        return self._own.get(parameter.name) if self._own else None

    def tensors(self, what: str) -> list[Any]:
        """The parameters, which are tensors of dynamic mode.

        Raises:
            PreconditionNotMet: there are none, or they belong to a program; `what` says what is asked of them.
        """
        if self.parameters is None:
            raise PreconditionNotMet(
                f"{what} works on tensors of dynamic mode: make the optimizer with parameters=layer.parameters(); "
                "a program is trained by minimize(loss)"
            )
        if any(isinstance(p, str | Variable) for p in self.parameters):
            raise PreconditionNotMet(
                f"{what} works in dynamic mode only; the parameters of this optimizer belong to a Program, "
                "which is trained by minimize(loss)"
            )
        return self.parameters


def _is_grouped(parameters: Any) -> bool:
    return isinstance(parameters, list | tuple) and any(isinstance(group, dict) for group in parameters)

"""What a variable is besides name and type, for those who write programs down (text, JSON)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.framework.program.block import Block
from workbench.framework.program.variable import Parameter, Variable

# word in text: (field, default)
VARIABLE_FLAGS: dict[str, tuple[str, Any]] = {
    "persistable": ("persistable", False),
    "stop_gradient": ("stop_gradient", False),
    "data": ("is_data", False),
    "check_feed": ("need_check_feed", False),
}
PARAMETER_FLAGS: dict[str, tuple[str, Any]] = {
    **VARIABLE_FLAGS,
    "persistable": ("persistable", True),
    "trainable": ("trainable", True),
    "need_clip": ("need_clip", True),
    "optimize_attr": ("optimize_attr", {"learning_rate": 1.0}),
    "regularizer": ("regularizer", None),
}


def flags_of(is_parameter: bool) -> dict[str, tuple[str, Any]]:
    """The flags of Parameters or of other variables."""
    return PARAMETER_FLAGS if is_parameter else VARIABLE_FLAGS


def flag_values(variable: Variable) -> Iterator[tuple[str, Any, Any]]:
    """Word, value and default of every flag."""
    for word, (field, default) in flags_of(isinstance(variable, Parameter)).items():
        yield word, getattr(variable, field), default


def explicit_variables(block: Block) -> list[Variable]:
    """The variables that need a declaration of their own, in creation order."""
    implied = set(implied_names(block))
    return [v for v in block.vars.values() if v.name not in implied]


def implied_names(block: Block) -> list[str]:
    """Names of the temporaries that the operator which makes them declares, in the order of these operators.

    A temporary is a variable of the block that is written before it is read, hides none of the blocks around it and
    has no flag but the `stop_gradient` that its dtype gives it.
    """
    seen: set[str] = set(block.inputs)
    implied = []
    for op in block.ops:
        for names in op.inputs.values():
            seen.update(names)
        for names in op.outputs.values():
            for name in names:
                if name not in seen:
                    seen.add(name)
                    variable = block.vars.get(name)
                    if variable is not None and _is_plain(variable) and not _hides(variable):
                        implied.append(name)
    return implied


def written_order(block: Block) -> list[Variable]:
    """All variables: the explicit ones, then the temporaries. Text and JSON both keep this order."""
    return explicit_variables(block) + [block.vars[name] for name in implied_names(block)]


def _hides(v: Variable) -> bool:
    parent = v.block.parent
    return parent is not None and parent.find_var(v.name) is not None


def _is_plain(v: Variable) -> bool:
    flagged = v.persistable or v.is_data or v.need_check_feed or isinstance(v, Parameter)
    return not flagged and v.stop_gradient is not v.dtype.is_float

"""Blocks in which every name is written once, as gradients of control flow need them.

A gradient block reads what the block of its forward op left behind, by name, when that block is over. So a value that
is written in place (`increment(i)`, `assign(y, output=x)`, `x.exp_()`) gets a name of its own for each write, and
operators read the name that was written last in front of them.

Source: Cytron et al., "Efficiently Computing Static Single Assignment Form", 1991; without joins, for a block has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.framework.names import generate
from workbench.framework.program.block import Block
from workbench.framework.program.variable import Variable


def write_once(block: Block, names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Rename writes until no operator of `block` writes an input of it, a variable from outside, or a name twice.

    Args:
        names: under which name a variable is read before the first write to it, where that is not its own.

    Returns:
        the name of the last value of each variable that now has another name than its own.
    """
    current, has_value = dict(names or {}), set(block.inputs)
    for op in block.ops:
        for name in current.keys() & set(op.input_arg_names):
            op.rename_input(name, current[name])
        for name in dict.fromkeys(op.output_arg_names):
            if name in block.vars and name not in has_value:
                has_value.add(name)
                continue
            current[name] = add_like(block, block.var_recursive(name), generate(name + ".w")).name
            op.rename_output(name, current[name])
    return current


def add_like(block: Block, variable: Variable, name: str) -> Variable:
    """A new variable of `block`, like another one."""
    return block.add_var(
        Variable(block, name, variable.shape, variable.dtype, variable.kind, stop_gradient=variable.stop_gradient)
    )

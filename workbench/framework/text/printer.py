"""Programs as text that can be read, compared and read back (`parser.parse_program`).

    program "digits" seed=1
    block 0 {
      var %image: float32[?, 64] stop_gradient data check_feed
      parameter %fc_0.w_0: float32[64, 10]
      %fc_0.tmp_0: float32[?, 10] = mul(X=%image, Y=%fc_0.w_0)
      Out=%dropout_0.tmp_0: float32[?, 10], Mask=%dropout_0.tmp_1: uint8[?, 10] = dropout(X=%fc_0.tmp_0)
    }

One line per operator. A variable that an operator makes and that is nothing special is declared by that
operator's line; parameters, data and all others have a line of their own at the top of their block. Left out
is what has its default: attributes, the role Forward, flags. `with_details` prints those too, and adds the
place in the user's code as a comment. The spelling of names and values is described in `lexicon`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workbench.errors import NotFound
from workbench.framework.names import EMPTY
from workbench.framework.op.record import Op, Slot
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR, role_text
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.site import Site
from workbench.framework.text.fields import explicit_variables, flag_values
from workbench.framework.text.lexicon import name_text, names_text, quote, type_text, value_text, word_text
from workbench.framework.written import writes

INDENT = "  "


@writes(Program)
def program_text(program: Program, with_details: bool = False) -> str:
    """A program, every block inside the one that encloses it."""
    lines = [_header(program)]
    for name, scheduler in program.lr_schedulers.items():
        lines.append(f"lr_scheduler {name_text(name)} = {value_text(scheduler)}")
    for key, value in program.attributes.items():
        lines.append(f"attribute {word_text(key)} = {value_text(value)}")
    inner = _inner_blocks(program)
    lines.extend(_block_lines(program.global_block(), inner, with_details))
    return "\n".join(lines) + "\n"


@writes(Block)
def block_text(block: Block, with_details: bool = False) -> str:
    """A block with the blocks inside it."""
    return "\n".join(_block_lines(block, _inner_blocks(block.program), with_details)) + "\n"


@writes(Operator)
def operator_text(op: Operator, with_details: bool = False) -> str:
    """An operator in one line."""
    record = _record(op)
    left = _outputs_text(op, record)
    call = f"{word_text(op.type)}({_inputs_text(op, record)})"
    text = f"{left} = {call}" if left else call
    attrs = _attrs_text(op, record, with_details)
    if attrs:
        text += f" {{{attrs}}}"
    if with_details or op.role:
        text += f" role={role_text(op.role)}"
    if op.attrs.get(ROLE_VAR):
        text += f" role_var={names_text(op.attrs[ROLE_VAR], is_list=True)}"
    return text + _site_text(op.site, with_details)


def variable_text(variable: Variable, with_details: bool = False) -> str:
    """The declaration of a variable in one line."""
    what = "parameter" if isinstance(variable, Parameter) else "var"
    words = [f"{what} {name_text(variable.name)}: {type_text(variable.spec)}"]
    for word, value, default in flag_values(variable):
        text = value_text(value)
        if (with_details and default is not False) or text != value_text(default):
            words.append(word if value is True and default is False else f"{word}={text}")
    return " ".join(words) + _site_text(variable.site, with_details)


def _header(program: Program) -> str:
    words = ["program"]
    if program.name:
        words.append(quote(program.name))
    if program.random_seed:
        words.append(f"seed={program.random_seed}")
    if program.streams:
        words.append(f"streams={program.streams}")
    if program.rng_step:
        words.append(f"rng_step={name_text(program.rng_step)}")
    return " ".join(words)


def _inner_blocks(program: Program) -> dict[int, list[Block]]:
    """The blocks by the index of the one around them."""
    inner: dict[int, list[Block]] = {}
    for block in program.blocks[1:]:
        inner.setdefault(block.parent_idx, []).append(block)
    return inner


def _block_lines(block: Block, inner: dict[int, list[Block]], with_details: bool) -> Iterator[str]:
    given = f" inputs={names_text(block.inputs, is_list=True)}" if block.inputs else ""
    yield f"block {block.idx}{given} {{"
    for variable in explicit_variables(block):
        yield INDENT + variable_text(variable, with_details)
    for op in block.ops:
        yield INDENT + operator_text(op, with_details)
    for child in inner.get(block.idx, ()):
        yield from (INDENT + line for line in _block_lines(child, inner, with_details))
    yield "}"


def _record(op: Operator) -> Op | None:
    try:
        return op.record
    except NotFound:
        return None  # printed all the same: the text may be what shows the mistake


def _outputs_text(op: Operator, record: Op | None) -> str:
    slots = record.outputs if record else ()
    if len(slots) == 1 and not slots[0].is_list and list(op.outputs) == [slots[0].name]:
        names = op.outputs[slots[0].name]
        if len(names) == 1:
            return _typed(op.block, names[0])
    lists = _list_slots(slots)
    return ", ".join(f"{word_text(s)}={_typed_names(op.block, n, s in lists)}" for s, n in op.outputs.items())


def _typed_names(block: Block, names: list[str], is_list: bool) -> str:
    text = ", ".join(_typed(block, name) for name in names)
    return text if len(names) == 1 and not is_list else f"[{text}]"


def _typed(block: Block, name: str) -> str:
    variable = block.find_var(name) if name != EMPTY else None
    return f"{name_text(name)}: {type_text(variable.spec)}" if variable is not None else name_text(name)


def _inputs_text(op: Operator, record: Op | None) -> str:
    lists = _list_slots(record.inputs if record else ())
    return ", ".join(f"{word_text(s)}={names_text(n, s in lists)}" for s, n in op.inputs.items())


def _list_slots(slots: Iterable[Slot]) -> set[str]:
    return {slot.name for slot in slots if slot.is_list}


def _attrs_text(op: Operator, record: Op | None, with_details: bool) -> str:
    defaults = record.attrs if record else {}
    words = []
    for key in (*(k for k in defaults if k in op.attrs), *(k for k in op.attrs if k not in defaults)):
        value = op.attrs[key]
        if key not in (ROLE, ROLE_VAR) and (with_details or not _is_default(key, value, defaults)):
            words.append(f"{word_text(key)}={value_text(value)}")
    return ", ".join(words)


def _is_default(key: str, value: Any, defaults: dict[str, Any]) -> bool:
    if key not in defaults:
        return False
    default = defaults[key]
    return value is default or (type(value) is type(default) and value_text(value) == value_text(default))


def _site_text(site: Site | None, with_details: bool) -> str:
    return "  # " + str(site).replace("\n", " ") if with_details and site else ""

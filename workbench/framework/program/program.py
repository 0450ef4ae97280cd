"""Program: a list of blocks, the thing an executor runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workbench.errors import InvalidType
from workbench.framework.program.block import Block
from workbench.framework.program.clone import (
    blocks_run,
    copy_blocks,
    copy_value,
    draws,
    forget_unread_saves,
    is_evaluated,
    is_trained,
    named_variables,
    set_is_test,
)
from workbench.framework.program.held import held_values
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import FORWARD
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.written import JSON, read, written

_uids = itertools.count(1)


class Program:
    """Operators and variables, in blocks; block 0 is the global one, the others are bodies of control flow.

    Attributes:
        random_seed: seed of the random ops that give none of their own; 0 means the process-wide seed.
        name: what messages and printers call the program ("" if it was not named).
        version: moves on with every change, so that executors know when to prepare anew.
        uid: unique in this process.
        origin: `uid` of the program that this one is a copy of (a copy of a copy: of the first), else its own.
        copied: `uid` of the program an executor's copy was taken of, else its own.
        rng_step: name of the persistable int64 [1] variable that counts the program's steps for its random ops; ""
            until it has one. The startup program sets it to 0.
        lr_schedulers: `{learning-rate variable: scheduler}`; an executor writes the current rate before a run.
        streams: how many random ops have got a stream (see `next_stream`).
        startup: the startup program that fills its parameters and states; None if it has none, or was read from a file.
        family: name of the program this one is a copy of (a copy of a copy: of the first), "" if it is no copy.
        attributes: what layers above keep with the program; plain values and registered objects are saved with it.
        op_role, op_role_var: given to the operators appended from now on; see `role_guard`.

    Example:
        >>> wb.enable_static()
        >>> main, startup = static.Program(), static.Program()
        >>> with static.program_guard(main, startup):
        ...     y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> [op.type for op in main.global_block().ops]
        ['mul', 'elementwise_add']
    """

    def __init__(self) -> None:
        self.uid = self.origin = next(_uids)
        self.copied = self.uid
        self.name = ""
        self.version = 0
        self._seed = 0
        self.op_role = FORWARD
        self.op_role_var: list[str] = []
        self.blocks: list[Block] = [Block(self, 0)]
        self._current = 0
        self.streams = 0
        self.rng_step = ""
        self.lr_schedulers: dict[str, Any] = {}
        self.attributes: dict[str, Any] = {}
        self.startup: Program | None = None
        self.family = ""

    # Blocks

    def global_block(self) -> Block:
        """The outermost block; parameters and fed variables live there."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """The block of this index; 0 is the outermost one."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block operators are appended to."""
        return self.blocks[self._current]

    @property
    def num_blocks(self) -> int:
        """How many blocks there are, the outermost one included."""
        return len(self.blocks)

    def create_block(self, parent_idx: int | None = None) -> Block:
        """Open a new block inside `parent_idx` (default: the current one) and make it the current one."""
        parent = self._current if parent_idx is None else parent_idx
        block = Block(self, len(self.blocks), parent)
        self.blocks.append(block)
        self._current = block.idx
        self.touch()
        return block

    _create_block = create_block

    def drop_blocks(self, idx: int) -> None:
        """Forget block `idx` and those opened after it, which no operator runs."""
        del self.blocks[idx:]
        self.touch()

    def rollback(self) -> None:
        """Go back to the enclosing block."""
        self._current = self.current_block().parent_idx

    _rollback = rollback

    @contextmanager
    def block_guard(self, block: Block) -> Iterator[Block]:
        """Append to `block` inside the `with` body."""
        old, self._current = self._current, block.idx
        try:
            yield block
        finally:
            self._current = old

    # Roles and versions

    @contextmanager
    def role_guard(self, role: int, pairs: Sequence[str | Variable] = ()) -> Iterator[None]:
        """Give operators appended in the `with` body this `op_role` (and `op_role_var`)."""
        old = self.op_role, self.op_role_var
        self.op_role = int(role)
        self.op_role_var = [p.name if isinstance(p, Variable) else p for p in pairs]
        try:
            yield
        finally:
            self.op_role, self.op_role_var = old

    def filled_by(self, startup: Program) -> None:
        """Note which startup program fills the parameters and states; the first one stays."""
        if self.startup is None and startup is not self:
            self.startup = startup

    def belongs_to(self, startup: Program) -> None:
        """Have this startup program, whichever it was before."""
        self.startup = startup

    def touch(self) -> None:
        """Note a change."""
        self.version += 1

    @property
    def random_seed(self) -> int:
        """What the program's random numbers follow from; 0 draws other ones every time."""
        return self._seed

    @random_seed.setter
    def random_seed(self, value: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidType(f"Program.random_seed is an int, got {value!r}")
        self._seed = value
        self.touch()

    def global_seed(self, seed: int = 0) -> None:
        """Set `random_seed`."""
        self.random_seed = seed

    def next_stream(self) -> int:
        """A number no other random op of this program has."""
        self.streams += 1
        return self.streams

    # Contents

    def list_vars(self) -> Iterator[Variable]:
        """All variables of all blocks."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        """The Parameters of the global block in creation order."""
        return self.global_block().all_parameters()

    def persistables(self) -> list[Variable]:
        """Everything kept in the scope between runs: parameters, statistics, optimizer state, counters."""
        return [v for v in self.list_vars() if v.persistable]

    def all_ops(self) -> Iterator[Operator]:
        """Operators of all blocks, block by block."""
        for block in self.blocks:
            yield from block.ops

    # Copies

    def clone(self, for_test: bool = False) -> Program:
        """A copy of everything, backward and update operators included.

        Args:
            for_test: a copy for evaluation: nothing of the backward and the updates, every `is_test` set. A
                program without a backward keeps all its operators and variables.
        """
        if for_test and is_trained(self.blocks):
            cloned = self.keep_operators(is_evaluated)
        else:
            cloned = self._copy(self.blocks, lambda op: True, lambda variable: True)
        if for_test:
            set_is_test(cloned.blocks)
        return cloned

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self.clone()

    def keep_operators(self, is_kept: Callable[[Operator], bool], also: Iterable[Variable] = ()) -> Program:
        """A copy with the operators that `is_kept` accepts, the blocks they run and the variables they name.

        Args:
            also: variables of the global block to keep although no operator names them.
        """
        blocks = blocks_run(self.blocks, is_kept)
        if self.rng_step and draws(blocks, is_kept):
            also = [*also, *self._variables(self.rng_step)]
        kept = self._copy(blocks, is_kept, named_variables(blocks, is_kept, also))
        forget_unread_saves(kept.blocks)
        return kept

    def _variables(self, name: str) -> list[Variable]:
        variable = self.global_block().vars.get(name)
        return [] if variable is None else [variable]

    def _copy(
        self, blocks: Sequence[Block], is_kept: Callable[[Operator], bool], is_wanted: Callable[[Variable], bool]
    ) -> Program:
        """A copy of some blocks (the parents of all among them), with some of their operators and variables."""
        copied = Program()
        copied_blocks = copy_blocks(blocks, copied.global_block(), is_kept, is_wanted)
        copied.blocks = list(copied_blocks.values())
        known = copied.global_block().vars
        copied.name, copied.origin, copied.streams = self.name, self.origin, self.streams
        copied.startup, copied.family = self.startup, self.family or self.name
        copied.random_seed = self.random_seed
        copied.rng_step = self.rng_step if self.rng_step in known else ""
        copied.attributes = copy_value(self.attributes, copied_blocks)
        copied.lr_schedulers = {name: s for name, s in self.lr_schedulers.items() if name in known}
        return copied

    # Values

    def state_dict(self, mode: str = "all", scope: Any = None) -> dict[str, Any]:
        """Copies of the values that a scope (by default the global one) holds for persistable variables, as tensors.

        Args:
            mode: "all"; "param", those of parameters; or "opt", the others.

        Raises:
            InvalidArgument: another mode. PreconditionNotMet: a value is missing; run the startup program first.
        """
        return held_values().state_dict(self, mode, scope)

    def set_state_dict(self, state_dict: dict[str, Any], scope: Any = None) -> None:
        """Write values by the names of persistable variables; those of other names are left out with a notice.

        Raises:
            PreconditionNotMet: no value is there yet. ShapeError, InvalidType: another shape or dtype; nothing is
                written then.
        """
        held_values().set_state_dict(self, state_dict, scope)

    # Text and JSON

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The program as text that `framework.text.parser.parse_program` reads back."""
        return written(self, with_details=with_details)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        ops = sum(len(block.ops) for block in self.blocks)
        parameters = sum(isinstance(v, Parameter) for v in self.list_vars())
        return f"Program{label}({ops} ops, {parameters} parameters, {len(self.blocks)} blocks)"

    @staticmethod
    def parse_from_string(data: str | bytes) -> Program:
        """A program from the JSON that `serialize_to_string` gives.

        Raises:
            InvalidArgument: malformed, or of an unknown version.
        """
        return read(Program, JSON, data)

    def serialize_to_string(self) -> str:
        """The program as versioned JSON."""
        return written(self, JSON)

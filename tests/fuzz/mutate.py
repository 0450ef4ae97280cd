"""Mutations of programs, of the text they are printed as, and of what is fed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.corpus import Seed
from workbench.errors import EnforceNotMet
from workbench.framework.op.record import OPS, flat
from workbench.framework.program.infer import infer_specs
from workbench.framework.program.program import Program
from workbench.framework.text.printer import program_text
from workbench.framework.text.serialize import program_from_dict, program_to_dict
from workbench.framework.values.dtype import as_dtype

Document = dict[str, Any]
DIMS = (-1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 1000)
ROWS = (1, 1, 2, 3, 4, 5, 6, 8, 15, 16, 17, 40, 3000)
_NUMBER = re.compile(r"-?\d+\.?\d*(e-?\d+)?")


class Mutant:
    """What is run: a program as text or JSON, and what is fed.

    Attributes:
        form: "text" or "json"; source: the program in this form; done: what was changed, in words.
    """

    def __init__(self, seed: Seed, random: Random) -> None:
        self.seed, self.random, self.done = seed, random, [f"seed {seed.name}"]
        self.document: Document = copy.deepcopy(seed.document)
        changes = random.choice((1, 1, 1, 2, 3))
        self.changes_feed = random.random() < 0.4
        as_text = random.random() < 0.15
        for _ in range(0 if as_text or (self.changes_feed and random.random() < 0.5) else changes):
            self._change()
        if random.random() < 0.85:
            self._redeclare()
        self.form, self.source = "json", json.dumps(self.document)
        if as_text or random.random() < 0.3:
            self._to_text(changes if as_text else 0)
        self.devices = 2 if seed.loss is not None and random.random() < 0.3 else 1
        self.numbers = random.getrandbits(32)  # for feeds and fetches

    def _to_text(self, changes: int) -> None:
        try:
            text = program_text(program_from_dict(self.document))
        except EnforceNotMet:
            return
        self.form, self.source = "text", text
        for _ in range(changes):
            self.source = self._changed_text(self.source)

    def _changed_text(self, text: str) -> str:
        lines = [i for i, line in enumerate(text.split("\n")) if "=" in line or ":" in line]
        at, rows = self.random.choice(lines or [0]), text.split("\n")
        kind = self.random.choice(("number", "number", "number", "word", "drop", "twice"))
        numbers = list(_NUMBER.finditer(rows[at]))
        if kind == "number" and numbers:
            one = self.random.choice(numbers)
            rows[at] = rows[at][: one.start()] + str(self.random.choice(DIMS)) + rows[at][one.end() :]
        elif kind == "word":
            names = re.findall(r"%[\w.@]+", text)
            own = re.findall(r"%[\w.@]+", rows[at])
            if own:
                rows[at] = rows[at].replace(self.random.choice(own), self.random.choice(names), 1)
        elif kind == "drop":
            del rows[at]
        else:
            rows.insert(at, rows[at])
        self.done.append(f"{kind} in line {at + 1}")
        return "\n".join(rows)

    # The document

    def _change(self) -> None:
        kinds: list[Callable[[], str]] = [
            self._attribute, self._attribute, self._attribute, self._attribute, self._shape, self._shape, self._shape,
            self._input, self._input, self._output, self._dtype, self._type, self._drop, self._twice, self._order,
            self._slot, self._flag,
        ]  # fmt: skip
        self.done.append(self.random.choice(kinds)())

    @property
    def _block(self) -> Document:
        return self.document["blocks"][0]

    def _operator(self) -> Document:
        return self.random.choice(self._block["operators"] or [{"type": "", "inputs": {}, "outputs": {}, "attrs": {}}])

    def _attribute(self) -> str:
        op = self._operator()
        if not op["attrs"]:
            return "nothing"
        key = self.random.choice(sorted(op["attrs"]))
        before = op["attrs"][key]
        op["attrs"][key] = self._other(before)
        return f"{op['type']}.{key}: {before} -> {op['attrs'][key]}"

    def _other(self, value: Any) -> Any:
        pick = self.random.choice
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return pick((value + 1, value - 1, -value, 0, 1, 2, -2, -1, 2 * value, value + 16))
        if isinstance(value, float):
            return pick((value + 1.0, -value, 0.0, 0.5, 2.0, 1e-3, 1e30, {"$float": "nan"}))
        if isinstance(value, str):
            words = ("NCHW", "NHWC", "SAME", "VALID", "EXPLICIT", "max", "avg", "float32", "int64", "constant", "")
            return pick(words)
        if isinstance(value, list):
            if value and self.random.random() < 0.8:
                at = self.random.randrange(len(value))
                return [self._other(v) if i == at else v for i, v in enumerate(value)]
            return pick((value[:-1], value + value[-1:], value[::-1], [1] * len(value)))
        if isinstance(value, dict) and "$tuple" in value:
            return {"$tuple": self._other(value["$tuple"])}
        return pick((0, 1, None, [1, 1], 0.5))

    def _variable(self) -> Document:
        return self.random.choice(self._block["variables"])

    def _shape(self) -> str:
        variable = self._variable()
        before, pick = list(variable["shape"]), self.random.choice
        shape = list(before)
        if shape and self.random.random() < 0.75:
            at = self.random.randrange(len(shape))
            shape[at] = pick((*DIMS, -1, -1, max(shape[at] - 1, 0), shape[at] + 1))
        else:
            shape = pick((shape[1:], shape[:-1], [*shape, 1], [1, *shape], shape[::-1]))
        variable["shape"] = shape
        return f"{variable['name']}: {before} -> {shape}"

    def _names(self) -> list[str]:
        return [v["name"] for v in self._block["variables"]]

    def _input(self) -> str:
        return self._renamed("inputs")

    def _output(self) -> str:
        return self._renamed("outputs")

    def _renamed(self, side: str) -> str:
        op = self._operator()
        slots = [s for s in sorted(op[side]) if op[side][s]]
        if not slots:
            return "nothing"
        slot = self.random.choice(slots)
        at = self.random.randrange(len(op[side][slot]))
        before = op[side][slot][at]
        shapes = {v["name"]: v["shape"] for v in self._block["variables"]}
        same_rank = [n for n in shapes if len(shapes[n]) == len(shapes.get(before, ())) and n != before]
        names = same_rank if same_rank and self.random.random() < 0.8 else self._names()
        op[side][slot] = list(op[side][slot])
        op[side][slot][at] = self.random.choice(names)
        return f"{op['type']}.{slot}: {before} -> {op[side][slot][at]}"

    def _dtype(self) -> str:
        variable = self._variable()
        variable["dtype"] = self.random.choice(("float32", "float64", "float16", "int64", "int32", "bool"))
        return f"{variable['name']}: {variable['dtype']}"

    def _type(self) -> str:
        """Another op with the same slots."""
        op = self._operator()
        if op["type"] not in OPS:
            return "nothing"
        mine = OPS[op["type"]]
        same_slots = [t for t in sorted(OPS) if OPS[t].inputs == mine.inputs and OPS[t].outputs == mine.outputs]
        other = self.random.choice(same_slots)
        before, op["type"] = op["type"], other
        defaults = {k: v for k, v in OPS[other].attrs.items() if isinstance(v, bool | int | float | str | None)}
        op["attrs"] = {k: op["attrs"].get(k, defaults.get(k)) for k in OPS[other].attrs}
        return f"{before} -> {other}"

    def _drop(self) -> str:
        ops = self._block["operators"]
        if len(ops) < 2:
            return "nothing"
        return f"without {ops.pop(self.random.randrange(len(ops)))['type']}"

    def _twice(self) -> str:
        ops = self._block["operators"]
        if not ops:
            return "nothing"
        op = self.random.choice(ops)
        ops.insert(self.random.randint(0, len(ops)), copy.deepcopy(op))
        return f"{op['type']} twice"

    def _order(self) -> str:
        ops = self._block["operators"]
        if len(ops) < 2:
            return "nothing"
        a, b = self.random.sample(range(len(ops)), 2)
        ops[a], ops[b] = ops[b], ops[a]
        return f"{ops[b]['type']} and {ops[a]['type']} change places"

    def _slot(self) -> str:
        op = self._operator()
        side = self.random.choice(("inputs", "outputs"))
        if not op[side]:
            return "nothing"
        slot = self.random.choice(sorted(op[side]))
        del op[side][slot]
        return f"{op['type']} without {slot}"

    def _flag(self) -> str:
        variable = self._variable()
        flag = self.random.choice(("persistable", "stop_gradient", "is_data"))
        variable["flags"][flag] = not variable["flags"].get(flag, False)
        return f"{variable['name']}.{flag}: {variable['flags'][flag]}"

    def _redeclare(self) -> None:
        """Let declarations follow from what the ops say, so that the change is not all that is looked at."""
        try:
            program = program_from_dict(self.document)
            _redeclare(program)
            self.document = program_to_dict(program)
        except Exception:  # then the checker has something to say
            return

    # Feeds

    def values(self, program: Program) -> dict[str, np.ndarray]:
        """What is given for data and persistable variables."""
        random = Random(self.numbers)
        rng, sizes = np.random.default_rng(self.numbers), {}
        values = {}
        for variable in program.list_vars():
            if variable.is_data or variable.persistable:
                values[variable.name] = self._value(variable, random, rng, sizes)
        return values

    def _value(self, variable: Any, random: Random, rng: Any, sizes: dict[int, int]) -> np.ndarray:
        given = self.seed.given.get(variable.name)
        shape, dtype = list(variable.shape), as_dtype(variable.dtype).numpy
        fits = given is not None and len(given.shape) == len(shape)
        for axis, dim in enumerate(shape):
            if dim < 0:
                usual = given.shape[axis] if fits else sizes.setdefault(axis, random.choice(ROWS))
                shape[axis] = random.choice(ROWS) if self.changes_feed and random.random() < 0.5 else usual
        if int(np.prod(shape)) > 1 << 20:
            shape = [min(d, 8) for d in shape]
        if given is not None and given.size:
            return np.resize(given, shape).astype(dtype)
        return (rng.standard_normal(shape) * (1 if dtype.kind == "f" else 3)).astype(dtype)


def _redeclare(program: Program) -> None:
    block = program.global_block()
    for op in block.ops:
        specs = infer_specs(op.record, block, op.inputs, op.call_attrs(), op.site)
        for slot, spec in zip(op.record.outputs, specs, strict=True):
            for name, one in zip(op.outputs.get(slot.name, ()), flat([spec]), strict=False):
                variable = block.vars.get(name)
                if variable is not None and not variable.persistable and not variable.is_data:
                    variable.shape, variable.dtype, variable.kind = one

"""PTX text as data: a module, its kernels, their registers, memory and instructions with the lines of the source.

Calls are expanded where they stand: registers and labels of the callee get names of their own at every call, and the
parameters become variables of the caller. So whoever executes a kernel sees one flat list of instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.errors import InvalidArgument, Unimplemented

WIDTHS = {"pred": 1, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "f16x2": 4, "bf16x2": 4} | {
    f"{sign}{bits}": bits // 8 for sign in "bsu" for bits in (8, 16, 32, 64)
}
"""How many bytes a value of a type has."""
BITS: dict[int, type] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
DTYPES: dict[str, type] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    **{f"{sign}{8 * width}": kind for sign in "bu" for width, kind in BITS.items()},
    **{f"s{8 * width}": np.dtype(f"i{width}").type for width in BITS},
}
"""What NumPy calls bits of a width, and the types it knows."""


@dataclass(frozen=True)
class PtxInstruction:
    """One instruction, its operands as text.

    Attributes:
        opcode: the parts between the dots, `("ld", "global", "f32")`.
        predicate: the register under which it runs, or "".
        negated: it runs where that register is false.
        line: of the CUDA source, 0 where the compiler names none.
    """

    opcode: tuple[str, ...]
    operands: tuple[str, ...]
    predicate: str = ""
    negated: bool = False
    line: int = 0

    def __str__(self) -> str:
        guard = f"@{'!' * self.negated}{self.predicate} " if self.predicate else ""
        return f"{guard}{'.'.join(self.opcode)} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of a kernel and where it lies among the bytes of all."""

    name: str
    type: str
    nbytes: int
    offset: int


@dataclass(frozen=True)
class ModuleVariable:
    """A variable of the module in .const or .global memory, with its bytes."""

    name: str
    data: bytes
    constant: bool


@dataclass
class KernelEntry:
    """A kernel, or a function that kernels call.

    Attributes:
        registers: the type of each by name.
        shared, local: where each variable lies in its memory.
        labels: the position in `code` of each.
        dynamic: names of `extern __shared__` arrays; all lie behind the static variables.
        limits: what the compiler was told, as `maxntid`.
    """

    name: str
    parameters: list[KernelParameter] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    code: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, ModuleVariable] = field(default_factory=dict)
    dynamic: set[str] = field(default_factory=set)
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    decoded: list = field(default_factory=list, repr=False)

    @property
    def parameter_bytes(self) -> int:
        return max((parameter.offset + parameter.nbytes for parameter in self.parameters), default=0)


@dataclass
class PtxModule:
    """What one PTX text defines; `entries` are the kernels."""

    entries: dict[str, KernelEntry]
    tables: dict[str, ModuleVariable]
    target: str

    def __getitem__(self, name: str) -> KernelEntry:
        if name not in self.entries:
            raise InvalidArgument(f"The module has no kernel {name}; it has {', '.join(sorted(self.entries))}")
        return self.entries[name]


_TABLE = re.compile(
    r"\.(global|const)\s+(?:\.attribute\([^)]*\)\s*)?\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?"
    r"\s*(?:=\s*(\{[^}]*\}|[^;]*))?;"
)
_HEAD = re.compile(r"\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*\(([^)]*)\)([^{;]*)([{;])")
_VARIABLE = re.compile(r"\.(?:align\s+(\d+)\s+\.)?(\w+)\s+([\w$%]+)(?:\[(\d*)\])?$")
_GUARDED = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([\w.:]+)\s*(.*)$", re.S)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s|]+")
_LABEL = re.compile(r"([$\w]+)\s*:(?!:)")


def parse(text: str) -> PtxModule:
    """Read PTX as NVIDIA's compilers write it."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^[ \t]*(\.loc\s[^\n]*)$", r"\1;", text, flags=re.M)
    text = re.sub(r"//[^\n]*", "", text)
    dynamic = set(re.findall(r"\.extern\s+\.shared\s+\.align\s+\d+\s+\.\w+\s+([\w$]+)\[\]", text))
    target = re.search(r"\.target\s+(\w+)", text)
    tables: dict[str, ModuleVariable] = {}
    functions: dict[str, KernelEntry] = {}
    entries: dict[str, KernelEntry] = {}
    bodies = list(_bodies(text))
    outside = text
    for _, span in bodies:
        outside = outside.replace(span, "")
    for match in _TABLE.finditer(outside):
        tables[match[4]] = _table(match)
    shared = _shared_variables(outside)
    for head, span in bodies:
        entry = _BodyReader(head, span, shared).entry
        entry.dynamic, entry.tables = dynamic, tables
        (entries if head[1] == "entry" else functions)[entry.name] = entry
    expanded = {name: _expand_calls(entry, functions) for name, entry in entries.items()}
    return PtxModule(expanded, tables, target[1] if target else "")


def _bodies(text: str) -> Iterator[tuple[re.Match[str], str]]:
    for head in _HEAD.finditer(text):
        if head[6] == ";":
            continue
        depth, at = 1, head.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield head, text[head.end() : at - 1]


def _table(match: re.Match[str]) -> ModuleVariable:
    width, count = WIDTHS[match[3]], int(match[5] or 1)
    values = [value.strip() for value in (match[6] or "").strip("{} \n").split(",") if value.strip()]
    data = b"".join(_literal_bytes(value, width) for value in values)
    return ModuleVariable(match[4], data.ljust(width * count, b"\0"), match[1] == "const")


def _literal_bytes(text: str, width: int) -> bytes:
    try:
        number = int(text[2:], 16) if text[:2] in ("0f", "0F", "0d", "0D") else int(text.rstrip("U"), 0)
    except ValueError:
        raise Unimplemented(f"The initial value {text} of a PTX table is no number") from None
    return (number % (1 << 8 * width)).to_bytes(width, "little")


def _shared_variables(text: str) -> list[tuple[str, int, int]]:
    variables = re.findall(r"(?<!\.extern )\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?;", text)
    return [(name, int(align), WIDTHS[kind] * int(count or 1)) for align, kind, name, count in variables]


class _BodyReader:
    """Reads the text of one kernel or function, statement by statement."""

    def __init__(self, head: re.Match[str], text: str, shared: list[tuple[str, int, int]]) -> None:
        self.entry = KernelEntry(head[3])
        self.line = 0
        self.scopes: list[dict[str, str]] = [{}]
        self.renamed = 0
        self._declare_parameters(head[4])
        self.entry.results = re.findall(r"([\w$]+)(?:\[\d+\])?\s*(?:,|$)", head[2] or "")
        for name, values in re.findall(r"\.(maxntid|reqntid|minnctapersm|maxnreg)\s+([\d,\s]+)", head[5]):
            self.entry.limits[name] = tuple(int(value) for value in values.split(","))
        for name, align, nbytes in shared:
            if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text):
                self._place(self.entry.shared, "shared_bytes", name, align, nbytes)
        for statement in self._statements(text):
            self._take(statement)

    def _declare_parameters(self, text: str) -> None:
        offset = 0
        for part in filter(None, (part.strip() for part in text.split(","))):
            part = re.sub(r"\.ptr(\s+\.(global|const|shared|local))?(\s+\.align\s+\d+)?", "", part)
            match = re.search(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?", part)
            if match is None:
                raise Unimplemented(f"The parameter {part!r} of {self.entry.name} cannot be read")
            width = WIDTHS[match[2]]
            align, nbytes = int(match[1] or width), width * int(match[4] or 1)
            offset = -(-offset // align) * align
            self.entry.parameters.append(KernelParameter(match[3], "bytes" if match[4] else match[2], nbytes, offset))
            offset += nbytes

    def _statements(self, text: str) -> Iterator[str]:
        """Give statements without their semicolon; labels end with a colon; scopes are entered and left on the way."""
        at = 0
        while at < len(text):
            if text[at].isspace() or text[at] == ";":
                at += 1
            elif text[at] == "{":
                self.scopes.append({})
                at += 1
            elif text[at] == "}":
                self.scopes.pop()
                at += 1
            elif label := _LABEL.match(text, at):
                yield f"{label[1]}:"
                at = label.end()
            else:
                end = text.index(";", at)
                yield text[at:end].strip()
                at = end + 1

    def _take(self, statement: str) -> None:
        if statement.endswith(":"):
            self.entry.labels[self._label(statement[:-1])] = len(self.entry.code)
        elif statement.startswith((".loc ", ".loc\t")):
            self._locate(statement)
        elif statement.startswith("."):
            self._declare(statement)
        else:
            self.entry.code.append(self._instruction(statement))

    def _label(self, name: str) -> str:
        if name.startswith("$"):
            return name
        return self.scopes[-1].setdefault(f"{name}:", f"{name}'{len(self.entry.labels)}")

    def _locate(self, statement: str) -> None:
        """Keep the line in the source itself, not in a header whose function was inlined into it."""
        for file, line in re.findall(r"(?:\.loc|inlined_at)\s+(\d+)\s+(\d+)", statement):
            if file == "1":
                self.line = int(line)
                return

    def _declare(self, statement: str) -> None:
        kind, rest = statement[1:].split(None, 1)
        if kind == "reg":
            self._declare_registers(rest)
        elif kind in ("shared", "local"):
            match = _VARIABLE.match(rest)
            assert match is not None, statement
            nbytes = WIDTHS[match[2]] * int(match[4] or 1)
            memory = self.entry.shared if kind == "shared" else self.entry.local
            self._place(memory, f"{kind}_bytes", match[3], int(match[1] or WIDTHS[match[2]]), nbytes)
        elif kind == "param":
            match = _VARIABLE.match(rest)
            assert match is not None, statement
            self._rename(match[3])
        elif kind not in ("pragma", "branchtargets", "callprototype"):
            raise Unimplemented(f"PTX declaration: {statement}")

    def _declare_registers(self, rest: str) -> None:
        kind, names = rest.split(None, 1)
        for name in (name.strip() for name in names.split(",")):
            match = re.match(r"([\w$%]+)<(\d+)>", name)
            several = [f"{match[1]}{at}" for at in range(int(match[2]))] if match else [name]
            for each in several:
                self.entry.registers[self._rename(each)] = kind[1:]

    def _rename(self, name: str) -> str:
        """Give a name of an inner scope one that nothing else has."""
        if len(self.scopes) == 1:
            return name
        self.renamed += 1
        self.scopes[-1][name] = f"{name}'{self.renamed}"
        return self.scopes[-1][name]

    def _place(self, memory: dict[str, int], total: str, name: str, align: int, nbytes: int) -> None:
        offset = -(-getattr(self.entry, total) // align) * align
        memory[name] = offset
        setattr(self.entry, total, offset + nbytes)

    def _instruction(self, statement: str) -> PtxInstruction:
        match = _GUARDED.match(statement)
        assert match is not None, statement
        branch = match[3].split(".")[0] == "bra"
        operands = [self._scoped(operand, branch) for operand in _OPERAND.findall(match[4])]
        opcode = tuple(part for part in re.split(r"[.:]+", match[3]) if part)
        return PtxInstruction(opcode, tuple(operands), self._scoped(match[2] or ""), bool(match[1]), self.line)

    def _scoped(self, operand: str, label: bool = False) -> str:
        if label:
            return self._label(operand)
        if len(self.scopes) == 1:
            return operand
        known: dict[str, str] = {}
        for scope in self.scopes:
            known |= scope
        return re.sub(r"[%$\w]+", lambda match: known.get(match[0], match[0]), operand)


def _expand_calls(entry: KernelEntry, functions: dict[str, KernelEntry], depth: int = 0) -> KernelEntry:
    if not any(one.opcode[0] == "call" for one in entry.code):
        return entry
    if depth > 16:
        raise Unimplemented(f"{entry.name} calls itself; recursion has no simulated form")
    code: list[PtxInstruction] = []
    moved: dict[int, int] = {}
    labels: dict[str, int] = {}
    for at, one in enumerate(entry.code):
        moved[at] = len(code)
        if one.opcode[0] != "call":
            code.append(one)
            continue
        callee, given = _callee(one, functions)
        callee = _expand_calls(callee, functions, depth + 1)
        _inline(entry, callee, given, f"{callee.name}'{at}", one.line, code, labels)
    moved[len(entry.code)] = len(code)
    entry.labels = {name: moved[at] for name, at in entry.labels.items()} | labels
    entry.code = code
    return entry


def _callee(call: PtxInstruction, functions: dict[str, KernelEntry]) -> tuple[KernelEntry, list[str]]:
    lists = [operand.strip("() ") for operand in call.operands if operand.startswith("(")]
    name = next(operand for operand in call.operands if not operand.startswith("("))
    if name not in functions:
        raise Unimplemented(f"{call} calls what the module does not define")
    names = [part.strip() for part in ",".join(lists).split(",") if part.strip()]
    return functions[name], names


def _inline(
    entry: KernelEntry,
    callee: KernelEntry,
    given: list[str],
    prefix: str,
    line: int,
    code: list[PtxInstruction],
    labels: dict[str, int],
) -> None:
    formal = [*callee.results, *(parameter.name for parameter in callee.parameters)]
    names = dict(zip(formal, given))
    for name, kind in callee.registers.items():
        names[name] = f"%{prefix}{name}"
        entry.registers[names[name]] = kind
    for name, offset in callee.local.items():
        names[name] = f"{prefix}{name}"
        entry.local[names[name]] = -(-entry.local_bytes // 16) * 16 + offset
    entry.local_bytes = -(-entry.local_bytes // 16) * 16 + callee.local_bytes
    names |= {label: f"{prefix}{label}" for label in callee.labels}
    end, start = f"{prefix}.end", len(code)
    for one in callee.code:
        operands = tuple(
            re.sub(r"[%$\w'.]+", lambda match: names.get(match[0], match[0]), text) for text in one.operands
        )
        leaves = one.opcode[0] == "ret"
        code.append(
            replace(
                one,
                opcode=("bra",) if leaves else one.opcode,
                operands=(end,) if leaves else operands,
                predicate=names.get(one.predicate, one.predicate),
                line=one.line or line,
            )
        )
    labels |= {names[label]: start + at for label, at in callee.labels.items()} | {end: len(code)}

"""OpWrite: an op that writes values there are, such as an update, which replaces what it reads."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.record import Op


class OpWrite:
    """An op with its attributes and the values it writes; what is the same whenever it is applied.

    Attributes:
        inputs, outputs: values by slot; absent ones are left out, and so are inputs that change.
        prepared: what a recorder has made of it, for the next time.
    """

    __slots__ = ("attrs", "inputs", "op", "outputs", "prepared")

    def __init__(self, op: Op, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any]) -> None:
        self.op, self.inputs, self.outputs, self.attrs = op, inputs, outputs, attrs
        self.prepared: Any = None

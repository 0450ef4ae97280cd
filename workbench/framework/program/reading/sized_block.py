"""What a block makes of values that are like this: shapes that follow through it."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.framework.program.block import Block
from workbench.framework.program.infer import infer_specs
from workbench.framework.values.spec import Spec


class SizedBlock:
    """A block as it is where some of its values are like this; what its operators make follows.

    Args:
        given: specs by name.

    Raises:
        EnforceNotMet: an operator does not take what it gets.
    """

    def __init__(self, block: Block, given: Mapping[str, Spec]) -> None:
        self._block, self._known = block, dict(given)
        for op in block.ops:
            specs = infer_specs(op.record, self, op.inputs, op.call_attrs(), op.site)
            for slot, spec in zip(op.record.outputs, specs, strict=True):
                names = op.outputs.get(slot.name, ())
                listed = spec if isinstance(spec, list) else [spec]
                self._known.update((n, s) for n, s in zip(names, listed, strict=False) if s is not None)

    def spec(self, name: str) -> Spec:
        """As in a `Block`."""
        return self._known.get(name) or self._block.spec(name)

"""Walking a layer and the layers below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from workbench.layers.members import Members


class LayerTree(Members):
    """The members of a layer and of all layers below it, under structured names: `encoder.0.weight`.

    A member that is reached in several ways is told once, by the first.
    """

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[Any] | None = None
    ) -> Iterator[tuple[str, Any]]:
        """(structured name, layer) of every layer below this one, parents first.

        Args:
            prefix: put before every name.
            include_self: begin with this layer itself.
            layers_set: layers to leave out; those told are added.
        """
        seen = set() if layers_set is None else layers_set
        if self in seen:
            return
        seen.add(self)
        if include_self:
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                yield from layer.named_sublayers(joined(prefix, name), include_self=True, layers_set=seen)

    def sublayers(self, include_self: bool = False) -> list[Any]:
        """Every layer below this one, parents first."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """(name, layer) of the sublayers of this layer alone."""
        seen: set[Any] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and layer not in seen:
                seen.add(layer)
                yield name, layer

    def children(self) -> Iterator[Any]:
        """The sublayers of this layer alone."""
        return (layer for _, layer in self.named_children())

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Any]]:
        """(structured name, parameter) of this layer and those below it.

        Args:
            prefix: put before every name.
        """
        return self._named("_parameters", prefix, include_sublayers)

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        """The parameters of this layer and those below it, what an optimizer takes."""
        return [parameter for _, parameter in self.named_parameters(include_sublayers=include_sublayers)]

    def named_buffers(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Any]]:
        """(structured name, buffer) of this layer and those below it."""
        return self._named("_buffers", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Any]:
        """The buffers of this layer and those below it."""
        return [buffer for _, buffer in self.named_buffers(include_sublayers=include_sublayers)]

    def _named(self, table: str, prefix: str, include_sublayers: bool) -> Iterator[tuple[str, Any]]:
        layers = self.named_sublayers(prefix, include_self=True) if include_sublayers else [(prefix, self)]
        seen: set[int] = set()
        for path, layer in layers:
            for name, value in vars(layer)[table].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield joined(path, name), value

    # All layers at once

    def apply(self, fn: Callable[[Any], Any]) -> Any:
        """Call `fn` on every layer below this one and on this one, children first.

        Returns:
            this layer.
        """
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def train(self) -> None:
        """From now on this layer and those below it behave as in training: dropout drops, batch norm uses the batch."""
        self._set_training(True)

    def eval(self) -> None:
        """From now on this layer and those below it behave as when they are used."""
        self._set_training(False)

    def _set_training(self, training: bool) -> None:
        for layer in self.sublayers(include_self=True):
            layer.training = training


def joined(prefix: str, name: str) -> str:
    """The structured name of a member of the layer called `prefix`."""
    return f"{prefix}.{name}" if prefix else name

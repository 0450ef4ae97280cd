"""Layers that hold layers or parameters: in a row, a list, a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workbench.errors import InvalidType
from workbench.layers.layer import Layer
from workbench.layers.parameters import is_parameter


class Sequential(Layer):
    """Layers that are called one after the other.

    Args:
        layers: layers, called "0", "1", …; or (name, layer) pairs.

    Raises:
        InvalidType: something that is no layer.

    Example:
        >>> net = wb.nn.Sequential(wb.nn.Linear(4, 3), wb.nn.ReLU())
        >>> print(net)
        Sequential(
          (0): Linear(in_features=4, out_features=3, dtype=float32)
          (1): ReLU()
        )
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for number, layer in enumerate(layers):
            named = isinstance(layer, list | tuple)
            name, layer = layer if named and len(layer) == 2 else (str(number), layer)
            self.add_sublayer(name, _layer("Sequential", layer))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return type(self)(*list(self._sub_layers.values())[key])
        return self._sub_layers[key] if isinstance(key, str) else self._sub_layers[self._name(key)]

    def __setitem__(self, key: Any, layer: Any) -> None:
        self._sub_layers[key if isinstance(key, str) else self._name(key)] = _layer("Sequential", layer)

    def __delitem__(self, key: Any) -> None:
        del self._sub_layers[key if isinstance(key, str) else self._name(key)]

    def _name(self, index: int) -> str:
        return list(self._sub_layers)[_position(self, index)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sub_layers.values()))

    def forward(self, input: Any) -> Any:
        """The input through every layer in turn."""
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """A list of layers; it has no `forward` of its own.

    Args:
        sublayers: an iterable of layers.

    Raises:
        InvalidType: something that is no layer.

    Example:
        >>> layers = wb.nn.LayerList([wb.nn.Linear(4, 4) for _ in range(3)])
        >>> len(layers), len(layers.parameters())
        (3, 6)
    """

    def __init__(self, sublayers: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or ())

    def _layers(self) -> list[Any]:
        return list(self._sub_layers.values())

    def _replace(self, layers: Iterable[Any]) -> None:
        self._sub_layers.clear()
        self._sub_layers.update((str(i), layer) for i, layer in enumerate(layers))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self._layers()[index])
        return self._sub_layers[str(_position(self, index))]

    def __setitem__(self, index: int, layer: Any) -> None:
        self._sub_layers[str(_position(self, index))] = _layer("LayerList", layer)

    def __delitem__(self, index: Any) -> None:
        layers = self._layers()
        del layers[index if isinstance(index, slice) else _position(self, index)]
        self._replace(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._layers())

    def append(self, sublayer: Any) -> LayerList:
        """Put a layer at the end."""
        self.add_sublayer(str(len(self)), _layer("LayerList", sublayer))
        return self

    def insert(self, index: int, sublayer: Any) -> None:
        """Put a layer before the one at `index`.

        Raises:
            IndexError: there is none. InvalidType: it is no layer.
        """
        layers = self._layers()
        layers.insert(_position(self, index), _layer("LayerList", sublayer))
        self._replace(layers)

    def extend(self, sublayers: Iterable[Any]) -> LayerList:
        """Put layers at the end."""
        for layer in [_layer("LayerList", layer) for layer in sublayers]:
            self.add_sublayer(str(len(self)), layer)
        return self


class LayerDict(Layer):
    """A dictionary of layers; it has no `forward` of its own.

    Args:
        sublayers: a dictionary of layers, or (name, layer) pairs.

    Raises:
        InvalidType: something that is no layer, or no pairs.

    Example:
        >>> layers = wb.nn.LayerDict({"up": wb.nn.Linear(2, 4), "act": wb.nn.ReLU()})
        >>> list(layers.keys())
        ['up', 'act']
    """

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key: str) -> Any:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Any) -> None:
        self.add_sublayer(key, _layer("LayerDict", sublayer))

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: object) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Drop all layers."""
        self._sub_layers.clear()

    def pop(self, key: str) -> Any:
        """Take a layer out.

        Raises:
            KeyError: there is none.
        """
        return self._sub_layers.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._sub_layers.keys()

    def values(self) -> Iterable[Any]:
        """The layers."""
        return self._sub_layers.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, layer) pairs."""
        return self._sub_layers.items()

    def update(self, sublayers: Any) -> None:
        """Add layers, or put them in the place of those of the same names.

        Args:
            sublayers: a dictionary, a LayerDict, or (name, layer) pairs.

        Raises:
            InvalidType: none of these, or something that is no layer.
        """
        if not isinstance(sublayers, Iterable):
            raise InvalidType(f"LayerDict takes a dictionary or (name, layer) pairs, got {sublayers!r}")
        pairs = sublayers.items() if isinstance(sublayers, Mapping | LayerDict) else sublayers
        for name, layer in [(name, _layer("LayerDict", layer)) for name, layer in pairs]:
            self.add_sublayer(name, layer)


class ParameterList(Layer):
    """A list of parameters; it has no `forward` of its own.

    Args:
        parameters: an iterable of parameters.

    Raises:
        InvalidType: something that is no parameter.

    Example:
        >>> w = [wb.create_parameter([2], "float32") for _ in range(3)]
        >>> len(wb.nn.ParameterList(w))
        3
    """

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for parameter in parameters or ():
            self.append(parameter)

    def __getitem__(self, index: int) -> Any:
        return self._parameters[str(_position(self, index))]

    def __setitem__(self, index: int, parameter: Any) -> None:
        if not is_parameter(parameter):
            raise InvalidType(f"ParameterList takes Parameters, got {type(parameter).__name__} {parameter!r}")
        self._parameters[str(_position(self, index))] = parameter

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def append(self, parameter: Any) -> ParameterList:
        """Put a parameter at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self


def _layer(owner: str, value: Any) -> Any:
    if not isinstance(value, Layer):
        raise InvalidType(f"{owner} takes layers, got {type(value).__name__} {value!r}")
    return value


def _position(container: Any, index: int) -> int:
    """A position counted from the front.

    Raises:
        IndexError: there is none.
    """
    count = len(container)
    if not -count <= index < count:
        raise IndexError(f"index {index} is out of range of {count} layers or parameters")
    return index % count

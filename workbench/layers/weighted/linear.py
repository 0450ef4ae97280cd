"""Linear and bilinear maps, tables of vectors, and a rectifier with a slope that is learned."""

from __future__ import annotations

from typing import Any

from workbench.builders.initializers.initializer import Constant
from workbench.errors import InvalidArgument
from workbench.layers.layer import Layer
from workbench.layers.values import zero_row
from workbench.ops.index.embedding import embedding
from workbench.ops.math.products.linear import bilinear, linear
from workbench.ops.nn.composed_activation import prelu


def named(told: str, name: str | None) -> str:
    """A layer's text with its name, if it has one."""
    return f"{told}, name={name}" if name else told


class Linear(Layer):
    """`x @ weight + bias` over the last dimension.

    Args:
        in_features, out_features: sizes of the last dimension before and after.
        weight_attr: the weight `[in_features, out_features]`, Xavier uniform by default.
        bias_attr: the bias `[out_features]`, 0 by default; False leaves it out.
        name: shown in the layer's text.

    Example:
        >>> layer = wb.nn.Linear(2, 3)
        >>> list(layer(wb.ones([4, 2])).shape)
        [4, 3]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.name = in_features, out_features, name
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """`[..., in_features]` to `[..., out_features]`."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and dtype."""
        told = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._dtype}"
        return named(told, self.name)


class Bilinear(Layer):
    """`x1' W_k x2 + bias_k` for every output k.

    Args:
        in1_features, in2_features, out_features: sizes of the last dimension of the inputs and of the output.
        weight_attr: the weight `[out_features, in1_features, in2_features]`.
        bias_attr: the bias `[1, out_features]`; False leaves it out.

    Example:
        >>> layer = wb.nn.Bilinear(2, 3, 4)
        >>> list(layer(wb.ones([5, 2]), wb.ones([5, 3])).shape)
        [5, 4]
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, weight_attr: Any = None, bias_attr: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._in1_features, self._in2_features, self._out_features = in1_features, in2_features, out_features
        self._name = name
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: Any, x2: Any) -> Any:
        """`[batch, in1_features]` and `[batch, in2_features]` to `[batch, out_features]`."""
        return bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and dtype."""
        sizes = (
            f"in1_features={self._in1_features}, in2_features={self._in2_features}, out_features={self._out_features}"
        )
        return named(f"{sizes}, dtype={self._dtype}", self._name)


class Embedding(Layer):
    """A table of vectors, looked up by number.

    Args:
        num_embeddings: rows of the table; embedding_dim: their length.
        padding_idx: this id gives zeros, and its row no gradient; negative ones count from the end.
        sparse: the gradient of the table holds only the rows that were read.
        weight_attr: the table `[num_embeddings, embedding_dim]`, Xavier uniform by default.

    Raises:
        InvalidArgument: sizes below 1, or `padding_idx` out of range.

    Example:
        >>> layer = wb.nn.Embedding(10, 3)
        >>> list(layer(wb.to_tensor([[1, 2], [3, 4]])).shape)
        [2, 2, 3]
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, sparse: bool = False,
        weight_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for what, size in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if size < 1:
                raise InvalidArgument(f"{what} of an Embedding is at least 1, got {size}")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise InvalidArgument(
                f"padding_idx of an Embedding is in [{-num_embeddings}, {num_embeddings}), got {padding_idx}"
            )
        self._num_embeddings, self._embedding_dim = num_embeddings, embedding_dim
        self._sparse, self._name = sparse, name
        self._padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)
        if self._padding_idx is not None:
            zero_row(self.weight, self._padding_idx)

    @property
    def has_sparse_gradient(self) -> bool:
        """Whether the gradient of the table holds only the rows that were read."""
        return self._sparse

    def forward(self, x: Any) -> Any:
        """Ids of any shape to vectors, `[*x.shape, embedding_dim]`."""
        return embedding(x, self.weight, self._padding_idx, self._sparse)

    def extra_repr(self) -> str:
        """Sizes, the row of padding, and whether gradients are sparse."""
        padding = "" if self._padding_idx is None else f", padding_idx={self._padding_idx}"
        return named(f"{self._num_embeddings}, {self._embedding_dim}{padding}, sparse={self._sparse}", self._name)


class PReLU(Layer):
    """x where it is positive, a slope that is learned times x elsewhere.

    Args:
        num_parameters: 1, or a slope per channel.
        init: their first value.
        weight_attr: the slopes `[num_parameters]`.
        data_format: where the channels are; see `prelu`.

    Source: He et al., "Delving Deep into Rectifiers", 2015.

    Example:
        >>> print(wb.nn.PReLU()(wb.to_tensor([-4.0, 2.0])).numpy())
        [-1.  2.]
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, weight_attr: Any = None, data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._num_parameters, self._init, self._data_format, self._name = num_parameters, init, data_format, name
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x: Any) -> Any:
        """A tensor of the shape of `x`."""
        return prelu(x, self._weight, self._data_format)

    def extra_repr(self) -> str:
        """The options."""
        told = f"num_parameters={self._num_parameters}, data_format={self._data_format}, init={self._init}"
        return named(f"{told}, dtype={self._dtype}", self._name)

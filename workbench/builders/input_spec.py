"""`static.InputSpec`: what an input is like, before there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.text.printable import printable
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.spec import Spec, as_shape, shape_text


class InputSpec:
    """Shape, dtype and name of an input.

    Args:
        shape: None and -1 are dimensions known only when there is one.
        dtype: element type.
        name: what it is called where it is fed; None leaves that open.
        stop_gradient: no gradient of it is wanted.

    Raises:
        InvalidType: no shape, dtype or name.

    Example:
        >>> static.InputSpec([None, 784], "float32", "image")
        InputSpec(shape=(-1, 784), dtype=paddle.float32, name=image, stop_gradient=False)
    """

    def __init__(
        self, shape: Sequence[int | None], dtype: Any = "float32", name: str | None = None, stop_gradient: bool = False
    ) -> None:
        if not (name is None or isinstance(name, str)):
            raise InvalidType(f"InputSpec takes a string or None as name, got {name!r}")
        self.shape = as_shape(shape, "the shape of an InputSpec")
        self.dtype: DType = as_dtype(dtype)
        self.name, self.stop_gradient = name, bool(stop_gradient)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> InputSpec:
        """What a tensor or variable is like.

        Example:
            >>> static.InputSpec.from_tensor(wb.ones([2, 3]), "x")
            InputSpec(shape=(2, 3), dtype=paddle.float32, name=x, stop_gradient=False)
        """
        if not hasattr(tensor, "stop_gradient"):
            raise InvalidType(f"InputSpec.from_tensor takes a Tensor, got {type(tensor).__name__}")
        return cls(tuple(tensor.shape), tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray, name: str | None = None) -> InputSpec:
        """What an array is like."""
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: int) -> InputSpec:
        """Put a dimension in front; returns this specification."""
        if isinstance(batch_size, list | tuple):
            if len(batch_size) != 1:
                raise InvalidArgument(f"batch takes one size, got {batch_size!r}")
            batch_size = batch_size[0]
        if not isinstance(batch_size, int):
            raise InvalidType(f"batch takes an int, got {batch_size!r}")
        self.shape = (batch_size, *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Take the first dimension away; returns this specification."""
        if not self.shape:
            raise InvalidArgument("unbatch needs a dimension to take away, the shape is []")
        self.shape = self.shape[1:]
        return self

    @property
    def spec(self) -> Spec:
        """Shape and dtype as one value."""
        return Spec(self.shape, self.dtype)

    def takes(self, spec: Spec) -> bool:
        """Whether values of a spec are of this kind."""
        return (
            self.dtype is spec.dtype
            and len(self.shape) == len(spec.shape)
            and all(own in (-1, given) for own, given in zip(self.shape, spec.shape, strict=True))
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        name = printable(str(self.name))
        return f"InputSpec(shape={self.shape}, dtype={self.dtype!s}, name={name}, stop_gradient={self.stop_gradient})"

    @property
    def text(self) -> str:
        """Dtype and shape, for messages."""
        return f"{self.dtype}{shape_text(self.shape)}"

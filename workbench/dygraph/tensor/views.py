"""Methods of tensors about their memory, place and kind; and those whose result has a shape that depends on values."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, Unimplemented
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import as_dtype, bool_
from workbench.framework.values.place import CPUPlace, Place
from workbench.ops.index.gather import GATHER
from workbench.ops.index.selected import WHERE_INDEX, coordinates, masked_elements
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.shape import RESHAPE
from workbench.ops.tensor.tile import broadcast_to
from workbench.runtime.storage.tensor import LoDTensor


def view(x: Tensor, shape_or_dtype: Any, name: str | None = None) -> Tensor:
    """The memory of `x` in another shape, or seen as another dtype (without history).

    Raises:
        InvalidArgument: the number of elements, or of bytes in the last dimension, does not fit.

    Example:
        >>> x = wb.arange(6)
        >>> wb.view(x, [2, 3]).shape
        [2, 3]
    """
    if isinstance(shape_or_dtype, list | tuple):
        reshaped: Tensor = RESHAPE(x, shape=[int(d) for d in shape_or_dtype])
        return reshaped
    try:
        return Tensor(x.array.view(as_dtype(shape_or_dtype).numpy), stop_gradient=True)
    except ValueError as error:
        raise InvalidArgument(f"view of {x.kind.spec} as {shape_or_dtype}: {error}") from None


def view_as(x: Tensor, other: Tensor, name: str | None = None) -> Tensor:
    """The memory of `x` in the shape of `other`. Raises: as for `view`.

    Example:
        >>> wb.view_as(wb.arange(6), wb.ones([2, 3])).shape
        [2, 3]
    """
    return view(x, other.shape)


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """Where `x` is not zero.

    Args:
        as_tuple: a tuple with a tensor `[n, 1]` per dimension instead of one tensor `[n, rank]`.

    In a program how many there are is known when it runs.

    Example:
        >>> print(wb.nonzero(wb.to_tensor([0, 3, 4])).numpy())
        [[1]
         [2]]
    """
    if isinstance(x, Variable):
        return tuple(RESHAPE(part, shape=[-1, 1]) for part in coordinates(x)) if as_tuple else WHERE_INDEX(x)
    require_values("nonzero", x)
    places = [Tensor(np.ascontiguousarray(part.reshape(-1, 1))) for part in x.as_read().nonzero()]
    return tuple(places) if as_tuple else Tensor(np.ascontiguousarray(np.argwhere(x.as_read())))


def masked_select(x: Tensor, mask: Tensor, name: str | None = None) -> Tensor:
    """The elements of `x` where `mask`, that broadcasts with it, is True, as a vector.

    Raises:
        InvalidType: the mask is not bool. ShapeError: of variables of a program, shapes that differ are not known.

    Example:
        >>> x = wb.to_tensor([1.0, 2.0, 3.0])
        >>> print(wb.masked_select(x, x > 1.5).numpy())
        [2. 3.]
    """
    if isinstance(x, Variable):
        return masked_elements(x, mask)
    require_values("masked_select", x, mask)
    if mask.dtype is not bool_:
        raise InvalidType(f"masked_select takes a mask of bool, got {mask.dtype}")
    shape = list(np.broadcast_shapes(x.kind.shape, mask.kind.shape))
    whole = x if x.shape == shape else broadcast_to(x, shape)
    places = np.flatnonzero(np.broadcast_to(mask.as_read(), shape))
    chosen: Tensor = GATHER(RESHAPE(whole, shape=[-1]), Tensor(places), axis=0)
    return chosen


def require_values(what: str, *values: Any) -> None:
    """Refuse variables of programs.

    Raises:
        InvalidType: one is no Tensor of dynamic mode.
    """
    for value in values:
        if not isinstance(value, Tensor):
            raise InvalidType(
                f"{what} gives a tensor whose shape depends on values: it takes Tensors of dynamic mode, got {value!r}"
            )


def is_floating_point(x: Any) -> bool:
    """Whether `x` holds floating-point numbers.

    Example:
        >>> wb.is_floating_point(wb.ones([1]))
        True
    """
    return bool(x.dtype.is_float)


def is_integer(x: Any) -> bool:
    """Whether `x` holds integers.

    Example:
        >>> wb.is_integer(wb.arange(3))
        True
    """
    return bool(x.dtype.is_integer)


def is_complex(x: Any) -> bool:
    """False: there are no complex tensors.

    Example:
        >>> wb.is_complex(wb.ones([1]))
        False
    """
    return False


def to(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`x` in another dtype: `to(dtype)`, `to(device, dtype)` or `to(other)`, each with `blocking`, as it is on a CPU.

    Raises:
        Unimplemented: a device other than the CPU. InvalidType: something that is no dtype, place or tensor. TypeError:
            another keyword.
    """
    unknown = kwargs.keys() - {"device", "dtype", "other", "blocking"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument {min(unknown)!r}")
    given = [*args, *(kwargs[k] for k in ("device", "dtype", "other") if kwargs.get(k) is not None)]
    for value in given:
        if isinstance(value, bool) or value is None:  # blocking
            continue
        if isinstance(value, Place) or (isinstance(value, str) and value.split(":")[0] in ("cpu", "gpu", "xpu")):
            if not isinstance(value, CPUPlace) and value != "cpu":
                raise Unimplemented(f"dynamic mode runs on the CPU so far, not on {value!r}")
            continue
        target = value.dtype if isinstance(value, Tensor) else as_dtype(value)
        x = x if target is x.dtype else x.astype(target)
    return x


def strides(x: Tensor) -> list[int]:
    """How many elements lie between neighbours along each dimension."""
    return [step // x.array.itemsize for step in x.array.strides]


def offset(x: Tensor) -> int:
    """How many bytes of its memory lie before a tensor that is a view."""
    base = x.array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return int(x.array.ctypes.data - base.ctypes.data)


def is_contiguous(x: Tensor) -> bool:
    """Whether the elements lie one after the other in row-major order."""
    return bool(x.array.flags.c_contiguous)


def contiguous(x: Tensor) -> Any:
    """`x`, or a copy whose elements lie one after the other."""
    return x if is_contiguous(x) else assign(x)


def element_size(x: Tensor) -> int:
    """Bytes per element."""
    return x.kind.dtype.itemsize


def cpu(x: Tensor) -> Tensor:
    """The tensor: its value is on the processor."""
    return x


def cuda(x: Tensor, device_id: Any = None, blocking: bool = True) -> Tensor:
    """Not available: dynamic mode runs on the CPU so far."""
    raise Unimplemented("dynamic mode runs on the CPU so far; there is no copy on a GPU")


def pin_memory(x: Tensor) -> Tensor:
    """The tensor: there is no device to copy it to."""
    return x


def value(x: Tensor) -> Tensor:
    """The tensor; Paddle's way to what it holds."""
    return x


def data_ptr(x: Tensor) -> int:
    """The address of the first element."""
    return int(x.array.ctypes.data)


def is_same_shape(x: Tensor, other: Tensor) -> bool:
    """Whether both have the same dimensions."""
    return x.kind.shape == other.kind.shape


def no(x: Tensor) -> bool:
    """False: there are no tensors of that kind."""
    return False


class TensorStorage(LoDTensor):
    """A tensor's value as `get_tensor()` gives it: what is set here is the tensor's."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.as_read())
        self._tensor = tensor

    def assign(self, new: Any) -> None:
        self._tensor.set_value(new)
        self.stored = self._tensor.array


def get_tensor(x: Tensor) -> TensorStorage:
    """The value, as scopes keep it.

    Example:
        >>> print(wb.to_tensor([1.0, 2.5]).get_tensor())
          - shape: [2]
          - layout: NCHW
          - place: Place(cpu)
          - dtype: float32
          - data: [1 2.5]
    """
    return TensorStorage(x)


def grad_fn(x: Tensor) -> Any:
    """The recorded op the tensor came from, None for a leaf."""
    return x.source


def type_name(x: Tensor) -> str:
    """Paddle's name for the kind of tensor."""
    return "selected_rows" if x.is_selected_rows() else "lod_tensor"


def layout(x: Tensor) -> str:
    """Paddle's name for the order of dimensions."""
    return "NCHW"


def write_data(x: Tensor, given: Any) -> None:
    """Write over the value."""
    x.set_value(given)


METHODS: dict[str, Any] = {
    **{f.__name__: f for f in (
        view, view_as, nonzero, masked_select, is_floating_point, is_integer, is_complex, to, is_contiguous, contiguous,
        value, get_tensor, data_ptr, is_same_shape, element_size, cpu, cuda, pin_memory,
    )},
    "get_strides": strides, "to_dense": value,
    "is_sparse_coo": no, "is_sparse_csr": no, "is_dist": no,
    "strides": property(strides),
    "offset": property(offset),
    "data": property(value, write_data),
    "grad_fn": property(grad_fn),
    "type": property(type_name),
    "layout": property(layout),
}  # fmt: skip
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)

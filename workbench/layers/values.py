"""Writing the value of a parameter or buffer of either mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.autograd.modes import no_grad
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import Unimplemented
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import DType
from workbench.runtime.storage.scope import global_scope


def set_value(tensor: Any, value: Any) -> None:
    """Give a tensor a value of its own shape and dtype; that of a variable goes into the global scope."""
    if isinstance(tensor, Variable):
        global_scope().var(tensor.name).set(np.asarray(value, tensor.dtype.numpy))
    else:
        with no_grad():
            tensor.set_value(value)


def zero_row(table: Any, row: int) -> None:
    """Make a row of a new parameter zero; in a program it may hold anything, as no op reads it."""
    if isinstance(table, Variable):
        return
    array = table.numpy()
    array[row] = 0
    set_value(table, array)


def set_dtype(tensor: Any, dtype: DType) -> None:
    """Give a tensor of dynamic mode its value in another dtype.

    Raises:
        Unimplemented: a variable of a program, whose dtype is part of the program.
    """
    if isinstance(tensor, Variable):
        raise Unimplemented(
            f"the dtype of {tensor.name!r} is part of a static Program; give the layer its dtype when it is made"
        )
    cast = Tensor(tensor.array.astype(dtype.numpy))
    tensor._put(cast.array)

"""`static.nn.fc`, `static.nn.embedding` and `static.nn.sparse_embedding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.layer import LayerBuilder, building, require_float_input
from workbench.builders.param_attr import required_attr, spread_attr, to_attr
from workbench.builders.table_entries import TableEntry
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.infix import not_a_variable
from workbench.framework.op.record import Op, find_op
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import normalize_axis, size_of
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.math.arithmetic import ADD


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: `activation(sum_i(x_i @ w_i) + b)`.

    Args:
        x: one input or several; dimensions before `num_flatten_dims` are rows, the others are flattened to
            features and have to be known.
        size: number of output features.
        num_flatten_dims: how many leading dimensions are kept; -1 keeps all but the last.
        weight_attr: a ParamAttr (or name, initializer) for every weight `[features, size]`, or a list, one
            per input.
        bias_attr: likewise for the bias `[size]`; False leaves it out.
        activation: name of an element-wise op or of softmax.

    Returns:
        shape `x.shape[:num_flatten_dims] + [size]`, dtype of `x`.

    Raises:
        InvalidArgument: unknown activation, shapes that do not fit. InvalidType: `x` is no Variable.

    Example:
        >>> wb.enable_static()
        >>> static.nn.fc(static.data("x", [None, 4]), size=2, activation="relu").shape
        (-1, 2)
    """
    inputs: list[Any] = list(x) if isinstance(x, list | tuple) else [x]
    _check_inputs(inputs, size)
    weight_attrs = spread_attr(weight_attr, len(inputs), "weight_attr")
    with building("fc", name) as layer:
        activate = layer.activation(activation)
        products = [
            _product(layer, v, size, num_flatten_dims, attr) for v, attr in zip(inputs, weight_attrs, strict=True)
        ]
        total = products[0] if len(products) == 1 else find_op("sum")(products, name=layer.name)
        bias = to_attr(bias_attr, "bias_attr")
        if bias is not None:
            b = layer.parameter(bias, [size], total.dtype, is_bias=True)
            total = ADD(total, b, name=layer.name)
        return activate(total)


def _check_inputs(inputs: list[Any], size: Any) -> None:
    if not inputs:
        raise InvalidArgument("fc takes at least one input, got an empty list")
    for v in inputs:
        if not isinstance(v, Variable):
            raise not_a_variable("fc takes Variables as x", v)
        require_float_input("fc", v)
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise InvalidType(f"fc takes an int as size, got {size!r}")
    if size < 1:
        raise InvalidArgument(f"fc takes a size of at least 1, got {size}")


def _product(layer: LayerBuilder, x: Variable, size: int, num_flatten_dims: int, attr: Any) -> Variable:
    rows = x.ndim - 1 if num_flatten_dims == -1 else num_flatten_dims
    if not 1 <= rows < x.ndim:
        raise InvalidArgument(
            f"fc: num_flatten_dims must leave at least one dimension to flatten\n"
            f"  expected: -1 or an int in [1, {x.ndim}) for {x!r}\n  got:      {num_flatten_dims}"
        )
    features = size_of(x.shape[rows:])
    if features < 1:
        raise InvalidArgument(
            f"fc: dimensions {rows} and after of {x!r} are flattened to features and have to be known"
        )
    w = layer.parameter(required_attr(attr, "weight_attr", "fc"), [features, size], x.dtype)
    return find_op("mul")(x, w, x_num_col_dims=rows, y_num_col_dims=1, name=layer.name)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table `[vocabulary, width]`, looked up by integer ids.

    Args:
        input: ids of any shape, int32 or int64.
        size: `[vocabulary, width]`.
        is_sparse: the table's gradient is rows and values instead of a dense tensor. With parameter servers
            (`DistributeTranspiler`, or a fleet that has some) the table then lies on them, and a step asks for the rows
            it reads; where trainers update by themselves (geo) they keep it.
        is_distributed: the table is for servers: `is_sparse` as well.
        padding_idx: id whose row reads as zeros and gets no gradient; negative ones count from the end.

    Returns:
        shape `input.shape + [width]`.

    Raises:
        InvalidArgument: `size` is not two positive ints, `padding_idx` lies outside.
        InvalidType: ids that are no integers.

    Example:
        >>> wb.enable_static()
        >>> static.nn.embedding(static.data("word", [None, 5], "int64"), size=(1000, 16)).shape
        (-1, 5, 16)
    """
    by_rows = is_sparse or is_distributed
    return looked_up("embedding", LOOKUP_TABLE, input, size, by_rows, padding_idx, param_attr, dtype)


_TABLE_CLASSES = ("CommonSparseTable", "SSDSparseTable", "MemorySparseTable")


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: TableEntry | None = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: Any = "float32",
    slot: int | None = None,
) -> Variable:
    """`embedding` with a sparse gradient, whose table lies on the parameter servers, if there are some.

    Args:
        input: integer ids of any shape, in [0, size[0]).
        size: `[vocabulary, width]`; a table has all its rows from the start.
        padding_idx: id whose row reads as zeros and gets no gradient; negative ones count from the end.
        is_test, entry, table_class, slot: have no effect; who asks for another than the default is told. All rows are
            in memory, and none is kept out.
        dtype: float32 or float64.

    Returns:
        shape `input.shape + [width]`.

    Raises:
        InvalidArgument: as `embedding`; an unknown table class. InvalidType: an entry that is none of
            `distributed.CountFilterEntry`, `ProbabilityEntry` and `ShowClickEntry`.

    Example:
        >>> wb.enable_static()
        >>> static.nn.sparse_embedding(static.data("word", [None, 5], "int64"), size=(1000, 16)).shape
        (-1, 5, 16)
    """
    if table_class not in _TABLE_CLASSES:
        raise InvalidArgument(f"table_class is one of {', '.join(_TABLE_CLASSES)}, got {table_class!r}")
    if entry is not None and not isinstance(entry, TableEntry):
        raise InvalidType(f"sparse_embedding takes an entry such as distributed.CountFilterEntry, got {entry!r}")
    on_disk = table_class == "SSDSparseTable"
    given = {"is_test": is_test, "entry": entry is not None, "table_class": on_disk, "slot": slot is not None}
    tell_without_effect("sparse_embedding", given)
    return looked_up("sparse_embedding", LOOKUP_TABLE, input, size, True, padding_idx, param_attr, dtype)


def looked_up(
    what: str, op: Op, ids: Any, size: Any, is_sparse: bool, padding_idx: int | None, param_attr: Any, dtype: Any
) -> Variable:
    """Rows of a new table, which `op` looks up; other arguments are those of `embedding`, whose errors are raised.

    Args:
        what: what messages call it.
    """
    if not isinstance(size, list | tuple) or len(size) != 2:
        raise InvalidArgument(f"{what} takes [vocabulary, width] as size, got {size!r}")
    if not isinstance(ids, Variable):
        raise not_a_variable(f"{what} takes a Variable as input", ids)
    with building(what) as layer:
        table = layer.parameter(required_attr(param_attr, "param_attr", what), size, as_dtype(dtype))
        padding = -1 if padding_idx is None else normalize_axis(padding_idx, size[0], "padding_idx")
        return op(table, ids, padding_idx=padding, is_sparse=is_sparse, name=layer.name)

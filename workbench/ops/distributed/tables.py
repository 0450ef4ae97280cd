"""Embedding tables that only parameter servers have, and gradients of some of their rows."""

from __future__ import annotations

from typing import Any, Protocol

from workbench.framework.op.declare import op
from workbench.framework.op.grad_op import require_like
from workbench.framework.values.dtype import float32, float64
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import ROWS, Spec
from workbench.ops.index.composed.labelled import LABELLED_LOOKUP
from workbench.ops.index.embedding import LOOKUP_TABLE, NO_PADDING


class TableClient(Protocol):
    """A trainer's way to the rows of a table, for one operator."""

    def pull_rows(self, ids: Any, **attrs: Any) -> Any:
        """The rows with these numbers: integers of any shape -> `[*shape, width]`."""


_DTYPES = {5: float32, 6: float64}  # by Paddle's numbers


def _named(ids: Any, lookup_table_version: str) -> Any:
    """Ids, an array or a spec, in the shape of what they name: those of 1.x have a last dimension of 1."""
    if lookup_table_version != LABELLED_LOOKUP.type:
        return ids
    return ids.with_shape(ids.shape[:-1]) if isinstance(ids, Spec) else ids[..., 0]


def _infer_pulled(
    ids: list[Spec], table: None, width: int, dtype: int, lookup_table_version: str, **attrs: Any
) -> list[Spec]:
    return [Spec((*_named(one, lookup_table_version).shape, width), _DTYPES[dtype]) for one in ids]


@op(
    "distributed_lookup_table",
    "Ids*, W -> Outputs*",
    attrs={
        "table_names": [],
        "height_sections": [],
        "endpoints": [],
        "trainer_id": 0,
        "lookup_table_version": LOOKUP_TABLE.type,
        "padding_idx": NO_PADDING,
        "dtype": 5,
        "width": -1,
    },
    infer=_infer_pulled,
    named_only="W",
    needs="client",
)
def DISTRIBUTED_LOOKUP_TABLE(xp: Any, ids: list[Any], table: None, client: TableClient, **attrs: Any) -> list[Any]:
    """Rows of a table that lies in blocks `table_names` of `height_sections` rows on servers `endpoints`;
    rows have `width` elements.

    W only names the table: no trainer has it.
    """
    ids = [_named(one, attrs["lookup_table_version"]) for one in ids]
    return [_without_padding(xp, one, client.pull_rows(one, **attrs), attrs["padding_idx"]) for one in ids]


def _without_padding(xp: Any, ids: Any, vectors: Any, padding_idx: int) -> Any:
    if padding_idx == NO_PADDING:
        return vectors
    return xp.where((ids == padding_idx)[..., None], vectors.dtype.type(0), vectors)


def _infer_pushed(table: None, ids: Spec, g: Spec, height: int, lookup_table_version: str, **attrs: Any) -> Spec:
    ids = _named(ids, lookup_table_version)
    require_like("Out@GRAD", "Out", g, Spec((*ids.shape, g.shape[-1]), g.dtype))
    return Spec((height, g.shape[-1]), g.dtype, ROWS)


@op(
    "distributed_lookup_table_grad",
    "W, Ids, Out@GRAD -> W@GRAD",
    attrs={"padding_idx": NO_PADDING, "height": 0, "lookup_table_version": LOOKUP_TABLE.type},
    infer=_infer_pushed,
    named_only="W",
)
def DISTRIBUTED_LOOKUP_TABLE_GRAD(
    xp: Any, table: None, ids: Any, g: Any, padding_idx: int, height: int, lookup_table_version: str
) -> Rows:
    """The gradient of a table of `height` rows that no trainer has: one row per id."""
    ids = _named(ids, lookup_table_version)
    values = _without_padding(xp, ids, g, padding_idx)
    return Rows(ids.reshape(-1).astype("int64"), values.reshape(-1, values.shape[-1]), height)


@op("fake_init", "-> Out", attrs={"shape": []}, infer=lambda **attrs: None)
def FAKE_INIT(xp: Any, shape: Any) -> None:
    """Stands where a variable would be made that only servers have. It makes nothing."""


def _infer_cut(x: Spec, height_sections: list[int]) -> list[Spec]:
    return [x.with_shape((height, *x.shape[1:])) for height in height_sections]


@op(
    "split_selected_rows",
    "X -> Out*",
    attrs={"height_sections": []},
    infer=_infer_cut,
    sparse="X",
)
def SPLIT_SELECTED_ROWS(xp: Any, x: Rows, height_sections: list[int]) -> list[Rows]:
    """A sparse gradient cut into those of blocks of so many rows; rows are counted within each block."""
    parts, start = [], 0
    for height in height_sections:
        inside = (x.rows >= start) & (x.rows < start + height)
        parts.append(Rows(x.rows[inside] - start, x.values[inside], height))
        start += height
    return parts


@op("ref_by_trainer_id", "X*, TrainerId -> Out", infer=lambda xs, trainer: xs[0])
def REF_BY_TRAINER_ID(xp: Any, xs: list[Any], trainer: Any) -> Any:
    """That of X which belongs to the trainer whose gradient is being applied."""
    return xp.array(xs[int(trainer.reshape(-1)[0])])

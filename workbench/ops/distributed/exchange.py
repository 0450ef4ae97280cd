"""What is run in place of `send`, `recv` and their barriers: one exchange with all servers a step.

A program for servers is written with an operator for every gradient; all of a step travels in one message to each
server, once the last gradient is there. Executors put these operators in their place (`parallel.servers.programs`).
"""

from __future__ import annotations

from typing import Any

from workbench.framework.op.declare import op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import ROWS, Spec


@op(
    "server_exchange",
    "X*? -> Out*?",
    attrs={"exchange": 0},
    infer=lambda xs, **attrs: None,
    sparse="X",
    needs="client",
)
def SERVER_EXCHANGE(xp: Any, xs: Any, client: Any, exchange: int) -> Any:
    """Push each of X to the servers, and pull each of Out."""
    return client.exchange(xs or [])


def _infer_rows(ids: Spec, exchange: int, width: int, dtype: str) -> Spec:
    return Spec((*ids.shape, width), as_dtype(dtype))


@op(
    "server_rows",
    "Ids -> Out",
    attrs={"exchange": 0, "width": 1, "dtype": "float32"},
    infer=_infer_rows,
    needs="client",
)
def SERVER_ROWS(xp: Any, ids: Any, client: Any, exchange: int, width: int, dtype: str) -> Any:
    """Rows of a table that only servers have, one per id."""
    return client.pull_rows(ids.reshape(-1).astype("int64")).reshape(*ids.shape, width)


@op(
    "server_rows_gradient",
    "Ids, OutGrad -> Out",
    attrs={"height": 1},
    infer=lambda ids, g, height: Spec((height, g.shape[-1]), g.dtype, ROWS),
)
def SERVER_ROWS_GRADIENT(xp: Any, ids: Any, g: Any, height: int) -> Any:
    """The gradient of such a table: one row per id."""
    return Rows(ids.reshape(-1).astype("int64"), g.reshape(-1, g.shape[-1]), height)

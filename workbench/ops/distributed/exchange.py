"""What is run in place of `send`, `recv` and their barriers: one exchange with all servers a step.

A program for servers is written with an operator for every gradient; all of a step travels in one message to each
server, once the last gradient is there. Executors put this operator in their place (`parallel.servers.programs`).
"""

from __future__ import annotations

from typing import Any

from workbench.framework.op.declare import op


@op(
    "server_exchange",
    "X*? -> Out*?, Done?",
    attrs={"exchange": 0},
    infer=lambda xs, **attrs: (None, None),
    sparse="X",
    needs="client, place",
)
def SERVER_EXCHANGE(xp: Any, xs: Any, client: Any, place: int, exchange: int) -> Any:
    """Push each of X to the servers, and pull each of Out. Where nothing is pulled, Done is named and holds nothing."""
    return client.exchange(xs or [], place), None

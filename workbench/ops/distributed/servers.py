"""The way of a program to parameter servers and back, as DistributeTranspiler writes it (T-4 … T-7, F-11).

Bodies are handed a `client` that knows the names of what the operator reads and writes, for servers keep variables by
name. A control variable holds nothing: it makes one operator wait for another.
"""

from __future__ import annotations

from typing import Any, Protocol

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.spec import Spec, same_dim

NOWHERE = ["127.0.0.1:6164"]
"""Where operators that push point unless they are told where to, as in Paddle."""


class Client(Protocol):
    """A trainer's side of the exchange with servers, for one operator; attributes are those of the operator."""

    def send(self, values: list[Any], **attrs: Any) -> None:
        """Push what the operator reads to the servers."""

    def send_barrier(self, **attrs: Any) -> None:
        """Tell the servers that everything of this step was pushed, and wait until they have applied it."""

    def recv(self, **attrs: Any) -> list[Any]:
        """Pull what the operator writes, one array for each name."""

    def fetch_barrier(self, **attrs: Any) -> None:
        """Tell the servers that everything of this step was pulled."""


class Server(Protocol):
    """A server's side."""

    def serve(self, optimize_blocks: list[Any], **attrs: Any) -> None:
        """Take gradients, run the blocks that are for them, hand out parameters, until all trainers have left."""


def _as_declared(*specs: Any, **attrs: Any) -> None:
    """What is written has shape and dtype of its own."""


@op(
    "send",
    "X* -> Out*?",
    attrs={
        "trainer_id": 0,
        "epmap": NOWHERE,
        "sections": [],
        "send_varnames": [],
        "num": 0,
        "merge_add": False,
        "use_send_handler": True,
    },
    infer=_as_declared,
    sparse="X",
    needs="client",
)
def SEND(xp: Any, xs: list[Any], client: Client, **attrs: Any) -> Any:
    """Push each of X to the server at its place of `epmap`.

    With `sections` the one X is cut into so many rows each, pushed under `send_varnames`.
    """
    client.send(xs, **attrs)


@op(
    "recv",
    "X*? -> Out*",
    attrs={
        "epmap": [],
        "trainer_id": 0,
        "with_barrier": True,
        "varnames": [],
        "recv_varnames": [],
        "do_not_run": 0,
    },
    infer=_as_declared,
    needs="client",
)
def RECV(xp: Any, controls: Any, client: Client, **attrs: Any) -> Any:
    """Pull each of Out from the server at its place of `epmap`.

    With `recv_varnames` the one Out is put together from those, one below the other.
    """
    return client.recv(**attrs)


@op(
    "send_barrier",
    "X*? -> Out*?",
    attrs={"trainer_id": 0, "endpoints": NOWHERE, "half_async": False},
    infer=_as_declared,
    needs="client",
)
def SEND_BARRIER(xp: Any, controls: Any, client: Client, **attrs: Any) -> Any:
    """Everything of this step was pushed."""
    client.send_barrier(**attrs)


@op(
    "fetch_barrier",
    "X*? -> Out*?",
    attrs={"trainer_id": 0, "endpoints": NOWHERE},
    infer=_as_declared,
    needs="client",
)
def FETCH_BARRIER(xp: Any, controls: Any, client: Client, **attrs: Any) -> Any:
    """Everything of this step was pulled. Out names what was; it stays as it is."""
    client.fetch_barrier(**attrs)


def _pieces(x: Any, sections: list[int], num: int) -> list[Any]:
    """Views of the rows of X, so many in each."""
    stops = [sum(sections[: i + 1]) for i in range(len(sections))]
    return [x[stop - size : stop] for size, stop in zip(sections, stops, strict=True)]


def _infer_pieces(x: Spec, sections: list[int], num: int) -> list[Spec]:
    if not same_dim(sum(sections), x.shape[0]):
        raise ShapeError("the sections add up to the rows", x.shape[0], sections)
    return [x.with_shape((size, *x.shape[1:])) for size in sections]


@op(
    "split_byref",
    "X -> Out*",
    attrs={"sections": [], "num": 0},
    infer=_infer_pieces,
)
def SPLIT_BYREF(xp: Any, x: Any, sections: list[int], num: int) -> list[Any]:
    """X cut into so many rows each."""
    return [xp.array(piece, order="C") for piece in _pieces(x, sections, num)]


@op(
    "listen_and_serv",
    "X* ->",
    attrs={
        "endpoint": "127.0.0.1:6164",
        "pserver_id": -1,
        "grad_to_block_id": [],
        "distributed_mode": 0,
        "dc_asgd": False,
        "optimize_blocks": [],
        "prefetch_var_name_to_block_id": [],
        "sparse_grad_to_param": [],
        "Fanin": 1,
        "checkpint_block_id": -1,
        "lr_decay_block_id": -1,
        "rpc_get_thread_num": 12,
        "rpc_send_thread_num": 12,
        "rpc_prefetch_thread_num": 12,
    },
    infer=lambda xs, **attrs: (),
    named_only="X",
    needs="server",
)
def LISTEN_AND_SERV(xp: Any, xs: Any, server: Server, **attrs: Any) -> Any:
    """Be a parameter server until all `Fanin` trainers have left.

    Block `optimize_blocks[i]` updates a parameter (or a block of one) once its gradient has come, which
    `grad_to_block_id` tells: `"<gradient>:<index of the block>"`. X are the gradients as trainers name them.
    """
    server.serve(**attrs)
    return ()

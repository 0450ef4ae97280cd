"""PyTorch, eager, on the programs of `bench_unknown_sizes`: milliseconds of a step, one thread.

python -m tests.benchmarks.bench_unknown_sizes --torch > script.py; python script.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

B, T, D, H, ROWS = 8, 24, 32, 64, 512
SHAPES: dict[str, list[tuple[int, int]]] = {
    "decoder": [(H, H), (D, H), (H, H)],
    "cache": [(H, H)] * 4 + [(D, H)],
    "masked": [(D, H), (H, D)],
    "branch": [(D, H), (H, D)],
    "top": [(D, H), (H, D), (D, 1)],
    "generation": [(50, H), (H, H), (H, H), (H, H), (H, 4 * H), (4 * H, H), (H, 50)],
}


def programs(torch: Any) -> dict[str, Callable[[list[Any], Any], Any]]:
    """What gives the loss of some parameters and data, by name."""
    functional = torch.nn.functional

    def decoder(p: list[Any], x: Any) -> Any:
        w, u, v = p
        h, xu = torch.tanh(x @ u), x @ u
        out = h[:, None]
        for _ in range(T):
            h = torch.tanh(h @ w + xu)
            out = torch.cat([out, functional.relu(h @ v)[:, None]], 1)
        return (out * out).mean()

    def cache(p: list[Any], x: Any) -> Any:
        wq, wk, wv, wo, u = p
        h = x @ u
        keys, values = (h @ wk)[:, None], (h @ wv)[:, None]
        for _ in range(T):
            query = (h @ wq)[:, None]
            keys, values = torch.cat([keys, (h @ wk)[:, None]], 1), torch.cat([values, (h @ wv)[:, None]], 1)
            weights = functional.softmax(query @ keys.transpose(1, 2) * 0.125, -1)
            h = torch.tanh((weights @ values)[:, 0] @ wo) + h
        return (h * h).mean()

    def masked(p: list[Any], x: Any) -> Any:
        u, w = p
        h = x * 1.0
        for _ in range(6):
            rows = torch.tanh(functional.relu(h[h.sum(1) > 0] @ u) @ w)
            h = h * 0.9 + rows.mean(0, keepdim=True)
        return (h * h).mean()

    def branch(p: list[Any], x: Any) -> Any:
        u, w = p
        h = functional.relu(x @ u) @ w
        if int(torch.tensor([T])) > 2:
            return torch.tanh(functional.relu(h[h.sum(1) > 0] @ u) @ w).mean()
        return h.mean()

    def top(p: list[Any], x: Any) -> Any:
        u, w, o = p
        h = torch.tanh(functional.relu(x @ u) @ w)
        y = functional.relu(torch.tanh(h[h.sum(1) > 0] @ u) @ w) @ o
        return (y * y).mean()

    def generation(p: list[Any], ids: Any) -> Any:
        table, wq, wk, wv, w1, w2, o = p
        with torch.no_grad():
            for _ in range(T):
                e = functional.embedding(ids, table)
                a = functional.softmax((e @ wq) @ (e @ wk).transpose(1, 2) * 0.125, -1) @ (e @ wv) + e
                a = a + functional.gelu(a @ w1) @ w2
                ids = torch.cat([ids, (a[:, -1] @ o).argmax(1)[:, None]], 1)
        return ids

    return {f.__name__: f for f in (decoder, cache, masked, branch, top, generation)}


def main() -> None:
    import torch

    torch.set_num_threads(1)
    for name, program in programs(torch).items():
        parameters = [torch.nn.Parameter(torch.randn(*shape) * shape[0] ** -0.5) for shape in SHAPES[name]]
        optimizer, taken = torch.optim.SGD(parameters, lr=0.01), []
        for _ in range(80):
            is_few = name in ("decoder", "cache")
            given = torch.randint(0, 50, (B, 4)) if name == "generation" else torch.randn(B if is_few else ROWS, D)
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = program(parameters, given)
            if name != "generation":
                loss.backward()
                optimizer.step()
            taken.append(1e3 * (time.perf_counter() - start))
        print(f"{name:10s} PyTorch  least {min(taken):7.3f}  median {sorted(taken[-20:])[10]:7.3f}", flush=True)


if __name__ == "__main__":
    main()

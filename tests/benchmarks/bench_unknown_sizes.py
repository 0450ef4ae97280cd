"""Steps of programs with sizes that only values tell, each beside the same program with sizes that are known.

    python -m tests.benchmarks.bench_unknown_sizes [PROGRAM ...]

For every program and its twin: the first step, the second, the longest of the others, the quickest, and the median of
the last twenty of sixty, in milliseconds. Feeds change from step to step, so that `masked`, `branch` and `top` meet
sizes they have not met before; `again` feeds the same once more. PyTorch's figures come from
`tests/benchmarks/peers/unknown_sizes_torch.py`, run with a Python that has it.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import workbench as wb
from workbench import static

F = wb.nn.functional
B, T, D, H, ROWS = 8, 24, 32, 64, 512
STEPS, LAST = 60, 20


def weight(*shape: int) -> Any:
    return static.create_parameter(list(shape), "float32")


def data() -> tuple[Any, Any]:
    return static.data("x", [B, D]), static.data("n", [1], "int64")


def counted(n: Any, body: Any, *variables: Any) -> Any:
    """A loop of n passes."""
    passes = wb.full([1], 0, "int64")
    return static.nn.while_loop(lambda i, *rest: i < n, lambda i, *rest: [i + 1, *body(*rest)], [passes, *variables])[
        1:
    ]


def decoder(unknown: bool) -> Any:
    """What each pass makes is put behind what there is."""
    x, n = data()
    w, u, v = weight(H, H), weight(D, H), weight(H, H)
    h, xu = wb.tanh(wb.matmul(x, u)), wb.matmul(x, u)
    out = wb.unsqueeze(h, 1) if unknown else wb.tile(wb.unsqueeze(h, 1), [1, T + 1, 1])

    def body(h: Any, out: Any) -> list[Any]:
        h = wb.tanh(wb.matmul(h, w) + xu)
        one = wb.unsqueeze(F.relu(wb.matmul(h, v)), 1)
        return [h, wb.concat([out if unknown else out[:, 1:], one], 1)]

    return wb.mean(counted(n, body, h, out)[1] ** 2)


def cache(unknown: bool) -> Any:
    """Attention to all keys and values of earlier passes."""
    x, n = data()
    wq, wk, wv, wo, u = weight(H, H), weight(H, H), weight(H, H), weight(H, H), weight(D, H)
    h = wb.matmul(x, u)
    first = [wb.unsqueeze(wb.matmul(h, w), 1) for w in (wk, wv)]
    first = first if unknown else [wb.tile(part, [1, T // 2, 1]) for part in first]

    def body(h: Any, *kept: Any) -> list[Any]:
        query, *new = (wb.unsqueeze(wb.matmul(h, w), 1) for w in (wq, wk, wv))
        keys, values = (
            wb.concat([old if unknown else old[:, 1:], part], 1) for old, part in zip(kept, new, strict=True)
        )
        weights = F.softmax(wb.matmul(query, keys, transpose_y=True) * 0.125)
        seen = wb.squeeze(wb.matmul(weights, values), 1)
        return [wb.tanh(wb.matmul(seen, wo)) + h, keys, values]

    return wb.mean(counted(n, body, h, *first)[0] ** 2)


def rows_of(h: Any, unknown: bool) -> Any:
    if unknown:
        return h[wb.sum(h, 1) > 0.0]
    return wb.gather(h, static.data("at", [ROWS // 2], "int64"), 0)


def masked(unknown: bool) -> Any:
    """Rows picked by their values, in each of six passes."""
    x, n = static.data("x", [ROWS, D]), static.data("n", [1], "int64")
    u, w = weight(D, H), weight(H, D)

    def body(h: Any) -> list[Any]:
        rows = wb.tanh(wb.matmul(F.relu(wb.matmul(rows_of(h, unknown), u)), w))
        return [h * 0.9 + wb.mean(rows, 0, keepdim=True)]

    return wb.mean(counted(n, body, x * 1.0)[0] ** 2)


def branch(unknown: bool) -> Any:
    """The same in a branch."""
    x, n = static.data("x", [ROWS, D]), static.data("n", [1], "int64")
    u, w = weight(D, H), weight(H, D)
    h = wb.matmul(F.relu(wb.matmul(x, u)), w)
    picked = lambda: wb.mean(wb.tanh(wb.matmul(F.relu(wb.matmul(rows_of(h, unknown), u)), w)))  # noqa: E731
    return static.nn.cond(n > 2, picked, lambda: wb.mean(h))


def top(unknown: bool) -> Any:
    """The same outside of blocks."""
    x = static.data("x", [ROWS, D])
    u, w, o = weight(D, H), weight(H, D), weight(D, 1)
    h = wb.tanh(wb.matmul(F.relu(wb.matmul(x, u)), w))
    rows = wb.tanh(wb.matmul(rows_of(h, unknown), u))
    return wb.mean(wb.matmul(F.relu(wb.matmul(rows, w)), o) ** 2)


def generation(unknown: bool) -> Any:
    """All tokens so far through a layer in every pass, without training."""
    ids, n = static.data("ids", [B, 4], "int64"), static.data("n", [1], "int64")
    table, wq, wk, wv = weight(50, H), weight(H, H), weight(H, H), weight(H, H)
    w1, w2, o = weight(H, 4 * H), weight(4 * H, H), weight(H, 50)

    def body(ids: Any) -> list[Any]:
        e = F.embedding(ids, table)
        q, k, v = (wb.matmul(e, w) for w in (wq, wk, wv))
        a = wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True) * 0.125), v) + e
        a = a + wb.matmul(F.gelu(wb.matmul(a, w1)), w2)
        token = wb.unsqueeze(wb.argmax(wb.matmul(a[:, -1], o), 1), 1)
        return [wb.concat([ids if unknown else ids[:, 1:], token], 1)]

    return counted(n, body, ids if unknown else wb.tile(ids, [1, 4]))[0]


PROGRAMS = {program.__name__: program for program in (decoder, cache, masked, branch, top, generation)}


def feed_of(name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    if name == "generation":
        return {"ids": rng.integers(0, 50, (B, 4)), "n": np.array([T])}
    few = name in ("decoder", "cache")
    feed = {"x": rng.standard_normal((B if few else ROWS, D)).astype(np.float32)}
    feed |= {} if name == "top" else {"n": np.array([6 if name == "masked" else T])}
    return feed if few else feed | {"at": np.sort(rng.permutation(ROWS)[: ROWS // 2])}


def steps(name: str, unknown: bool, again: bool) -> list[float]:
    """Milliseconds of every step."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    with static.program_guard(main, startup):
        result = PROGRAMS[name](unknown)
        if name != "generation":
            wb.optimizer.SGD(0.0 if again else 0.01).minimize(result)
    exe, rng, taken = static.Executor(), np.random.default_rng(0), []
    exe.run(startup)
    feed = feed_of(name, rng)
    for _ in range(STEPS):
        given = {key: value for key, value in feed.items() if main.global_block().has_var(key)}
        start = time.perf_counter()
        exe.run(main, feed=given, fetch_list=[result])
        taken.append(1e3 * (time.perf_counter() - start))
        feed = feed if again else feed_of(name, rng)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    wb.enable_static()
    for name in parser.parse_args().programs:
        for label, unknown, again in (("unknown", True, False), ("again", True, True), ("known", False, True)):
            taken = steps(name, unknown, again)
            print(
                f"{name:10s} {label:8s} first {taken[0]:7.1f}  second {taken[1]:6.1f}  longest {max(taken[2:]):6.1f}  "
                f"least {min(taken):7.3f}  median {np.median(taken[-LAST:]):7.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

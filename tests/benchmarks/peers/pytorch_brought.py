"""Programs that people bring, in PyTorch, eager, with two threads: `python PEER ROW SECONDS` prints ms a step."""

import sys
from time import perf_counter

import torch
from torch import nn, optim


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(10_000, 16, sparse=True) for _ in range(8))
        self.deep = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, ids):
        return self.deep(torch.cat([table(i) for table, i in zip(self.tables, ids)], 1))


def wide_and_deep():
    model = WideAndDeep()
    ids, y = [torch.randint(0, 10_000, (256,)) for _ in range(8)], torch.randn(256, 1)
    return training(optim.SGD(model.parameters(), 0.01), lambda: nn.functional.mse_loss(model(ids), y))


def loop():
    w, x = nn.Parameter(torch.randn(64, 64) / 8), torch.randn(32, 64)

    def loss():
        h = torch.zeros(32, 64)
        for _ in range(32):
            h = torch.tanh(h @ w + x)
        return h.mean()

    return training(optim.SGD([w], 0.1), loss)


def training(update, loss):
    def step():
        update.zero_grad()
        now = loss()
        now.backward()
        update.step()
        return now.item()

    return step


def lasting(step, seconds):
    """ms of the steps of so many seconds, the quickest of stretches of ten."""
    for _ in range(20):
        step()
    best, end = float("inf"), perf_counter() + seconds
    while perf_counter() < end:
        begun = perf_counter()
        for _ in range(10):
            step()
        best = min(best, (perf_counter() - begun) / 10)
    return 1e3 * best


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(lasting({"wide and deep": wide_and_deep, "loop": loop}[sys.argv[1]](), float(sys.argv[2])))

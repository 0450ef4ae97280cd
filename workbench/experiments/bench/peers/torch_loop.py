"""`loop` in PyTorch, a loop of Python, eager, with as many threads as there are processors."""

import torch
from measure import main
from torch import nn

PASSES, BATCH, WIDTH = 32, 32, 64


def make():
    torch.manual_seed(7)
    w, x = nn.Parameter(torch.randn(WIDTH, WIDTH) / 8), torch.randn(BATCH, WIDTH)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step():
        optimizer.zero_grad()
        hidden = torch.zeros(BATCH, WIDTH)
        for _ in range(PASSES):
            hidden = torch.tanh(hidden @ w + x)
        loss = hidden.mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main(make)

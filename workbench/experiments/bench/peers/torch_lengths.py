"""`lengths` in PyTorch, all in turn, eager, with as many threads as there are processors."""

from itertools import cycle

import torch
from measure import main
from torch import nn

BATCH, WIDTH, HEADS = 8, 64, 4
LENGTHS = range(10, 50)


def make():
    torch.manual_seed(7)
    block = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True)
    model = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    sequences = cycle([torch.randn(BATCH, length, WIDTH) for length in LENGTHS])

    def step():
        x = next(sequences)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main(make)

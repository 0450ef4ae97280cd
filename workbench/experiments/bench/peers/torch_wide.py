"""`wide` in PyTorch, eager, with as many threads as there are processors."""

import torch
from measure import main
from torch import nn

BATCH, HEIGHT, TABLES, WIDTH = 256, 10_000, 8, 16


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(HEIGHT, WIDTH, sparse=True) for _ in range(TABLES))
        self.deep = nn.Sequential(
            nn.Linear(TABLES * WIDTH, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)
        )

    def forward(self, ids):
        return self.deep(torch.cat([table(own) for table, own in zip(self.tables, ids)], 1))


def make():
    torch.manual_seed(7)
    model = WideAndDeep()
    ids, wanted = [torch.randint(HEIGHT, (BATCH,)) for _ in range(TABLES)], torch.randn(BATCH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(ids), wanted)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main(make)

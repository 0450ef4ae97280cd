"""The workloads in PyTorch, eager, as many threads as devices."""

from itertools import pairwise

import torch
from measure import WIDTHS, batch, main
from torch import nn, optim


def dense(widths):
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return layers[:-1]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(128, 10)

    def forward(self, x):
        return self.last(self.layers(x).mean(dim=1))


def network(name):
    if name == "encoder":
        return Encoder()
    if name == "lenet":
        first = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*first, *second, *dense([400, 120, 84, 10]))
    return nn.Sequential(*dense(WIDTHS[name]))


def optimizer(name, parameters):
    if name in ("mlp", "encoder"):
        return optim.Adam(parameters, lr=1e-3)
    return optim.SGD(parameters, lr=0.01, momentum=0.9 if name == "lenet" else 0.0)


def training(name, devices):
    torch.set_num_threads(devices)
    model = network(name)
    update = optimizer(name, model.parameters())
    x, y = batch(name)

    def step():
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y[:, 0]))
        loss.backward()
        update.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main(training)

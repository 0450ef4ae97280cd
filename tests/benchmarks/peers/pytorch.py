"""The workloads in PyTorch, eager, in one process with as many threads as devices."""

from itertools import pairwise

import numpy as np
import torch
from measure import WIDTHS, batch, main, weights
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


def layers_of(name):
    if name == "encoder":
        return Encoder()
    if name == "lenet":
        first = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*first, *second, *dense(WIDTHS[name]))
    return nn.Sequential(*dense(WIDTHS[name]))


def network(name):
    """The layers with the weights all libraries start from.

    PyTorch's matrices are [outputs, inputs], and those of query, key and value are one.
    """
    net, given = layers_of(name), iter(weights(name))
    for key, parameter in net.named_parameters():
        if "bias" in key:
            nn.init.zeros_(parameter)
        elif parameter.ndim > 1:
            rows = []
            while len(rows) < len(parameter):
                value = next(given)
                rows += list(value.T if value.ndim == 2 else value)
            parameter.data.copy_(torch.from_numpy(np.stack(rows)))
    return net


def optimizer(name, parameters):
    if name in ("mlp", "encoder"):
        return optim.Adam(parameters, lr=1e-3)
    return optim.SGD(parameters, lr=0.01, momentum=0.9 if name == "lenet" else 0.0)


def stepping(name, model, x, y):
    """The step of a model on these images and classes."""
    update = optimizer(name, model.parameters())

    def step():
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y[:, 0]))
        loss.backward()
        update.step()
        return loss.item()

    return step


def training(name, devices):
    torch.set_num_threads(devices)
    return stepping(name, network(name), *batch(name))


if __name__ == "__main__":
    main(training, torch.__version__)

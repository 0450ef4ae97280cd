"""`lstm-loop`, `lstm-unrolled`, `gru-loop` and `gru-unrolled` in PyTorch.

PyTorch has no loop in a program: `lstm-loop` is the layer of the library, the others are cells in a loop of Python.
The library's GRU resets after its product and not before, so it is another network.
"""

import torch
from in_pytorch.layers import Given, adam
from torch import nn
from torch.nn import functional as F

WIDTH = 64


class LSTMLayer(nn.Module):
    """The library's layer has a second bias, which stays zero here; and its third and fourth gate are the other way."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        w, b = given.pair()
        enters, stays, leaves, new = torch.cat([w, b[None]]).T.split(WIDTH)
        rows = torch.cat([enters, stays, new, leaves])
        self.layer = nn.LSTM(WIDTH, WIDTH)
        self.layer.weight_ih_l0.data.copy_(rows[:, :WIDTH])
        self.layer.weight_hh_l0.data.copy_(rows[:, WIDTH:-1])
        self.layer.bias_ih_l0.data.copy_(rows[:, -1])
        nn.init.zeros_(self.layer.bias_hh_l0).requires_grad_(False)

    def forward(self, x):
        return self.layer(x)[1][0][0]


class LSTM(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.gates = given.linear()

    def forward(self, x):
        h = c = torch.zeros(x.shape[1:])
        for now in x.unbind():
            enters, stays, leaves, new = self.gates(torch.cat([now, h], 1)).chunk(4, 1)
            c = stays.sigmoid() * c + enters.sigmoid() * new.tanh()
            h = leaves.sigmoid() * c.tanh()
        return h


class GRU(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.gates, self.new = given.linear(), given.linear()

    def forward(self, x):
        h = torch.zeros(x.shape[1:])
        for now in x.unbind():
            update, reset = self.gates(torch.cat([now, h], 1)).sigmoid().chunk(2, 1)
            h = torch.lerp(self.new(torch.cat([now, reset * h], 1)).tanh(), h, update)
        return h


class Classifier(nn.Module):
    """Sequences [length, batch, width] by their last state."""

    def __init__(self, given: Given, network: type) -> None:
        super().__init__()
        self.network, self.last = network(given), given.linear()

    def forward(self, x, y):
        return F.cross_entropy(self.last(self.network(x)), y[:, 0])


def classifier(network):
    return lambda given: adam(Classifier(given, network))


PROGRAMS = {
    "lstm-loop": classifier(LSTMLayer),
    "lstm-unrolled": classifier(LSTM),
    "gru-loop": classifier(GRU),
    "gru-unrolled": classifier(GRU),
}

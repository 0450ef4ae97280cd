"""`separable`, `dilated`, `norms`, `unet` and `nhwc` in PyTorch.

Images come with channels first, but for the last; PyTorch's convolutions are faster where channels lie last in memory,
all but those of `norms`.
"""

import torch
from in_pytorch.layers import Given, adam, momentum
from torch import nn
from torch.nn import functional as F


class ChannelsLast(nn.Module):
    """A network whose images lie with channels last in memory, and its filters alike."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.network(x.contiguous(memory_format=torch.channels_last))


class Classifier(nn.Module):
    """Of features that are averaged over all places."""

    def __init__(self, given: Given, features: nn.Module) -> None:
        super().__init__()
        self.features, self.last = features, given.linear()

    def forward(self, x, y):
        return F.cross_entropy(self.last(self.features(x).mean((2, 3))), y[:, 0])


def separable(given: Given) -> nn.Module:
    layers = [given.conv(padding=1, bias=False), given.batch_norm(), nn.ReLU()]
    channels = 16
    for filters, stride in ((32, 2), (32, 1), (64, 2)):
        layers += [given.conv(channels, stride=stride, padding=1, bias=False), given.batch_norm(), nn.ReLU6()]
        layers += [given.conv(bias=False), given.batch_norm(), nn.ReLU6()]
        channels = filters
    return nn.Sequential(*layers)


def dilated(given: Given) -> nn.Module:
    layers = [given.conv(padding=2, dilation=2), nn.ReLU()]
    for dilation in (1, 2):
        layers += [given.conv(4, padding=dilation, dilation=dilation), nn.ReLU(), nn.ChannelShuffle(4)]
    return nn.Sequential(*layers)


class Normed(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.first, self.norm = given.conv(padding=1, padding_mode="reflect"), given.instance_norm()
        self.others = nn.ModuleList(nn.Sequential(given.conv(padding=1), given.group_norm(4)) for _ in range(2))

    def forward(self, x):
        x = F.leaky_relu(self.norm(self.first(x)), 0.2)
        for other in self.others:
            x = x + F.silu(other(x))
        return x


class UNet(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.high, self.middle, self.low = (given.conv(padding=1) for _ in range(3))
        self.to_middle, self.at_middle = given.transposed_conv(stride=2), given.conv(padding=1)
        self.to_high, self.at_high = given.transposed_conv(stride=2, padding=1), given.conv(padding=1)
        self.last = given.conv()
        self.to(memory_format=torch.channels_last)

    def forward(self, x, mask):
        high = self.high(x.contiguous(memory_format=torch.channels_last)).relu()
        middle = self.middle(F.max_pool2d(high, 2)).relu()
        low = self.low(F.max_pool2d(middle, 2)).relu()
        middle = self.at_middle(torch.cat([middle, self.to_middle(low)], 1)).relu()
        high = self.at_high(torch.cat([high, self.to_high(middle)], 1)).relu()
        return F.binary_cross_entropy_with_logits(self.last(high), mask)


class Images(nn.Module):
    """Of images [batch, rows, columns, channels], which PyTorch takes for a view of others."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        layers = []
        for _ in range(2):
            layers += [given.conv(padding=1, bias=False), given.batch_norm(), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = ChannelsLast(nn.Sequential(*layers))

    def forward(self, x):
        return self.features(x.permute(0, 3, 1, 2))


PROGRAMS = {
    "separable": lambda given: momentum(Classifier(given, ChannelsLast(separable(given))), 0.01),
    "dilated": lambda given: momentum(Classifier(given, ChannelsLast(dilated(given))), 0.01),
    "norms": lambda given: momentum(Classifier(given, Normed(given)), 0.01),
    "unet": lambda given: adam(UNet(given)),
    "nhwc": lambda given: momentum(Classifier(given, Images(given)), 0.01),
}

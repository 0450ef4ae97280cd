"""`ctr`, `smoothed`, `float64` and `gan` in PyTorch."""

import torch
from covered import NOISE
from in_pytorch.layers import Given, Program, adam, momentum
from torch import nn
from torch.nn import functional as F

BATCH, WIDTH = 256, 16  # of the noise


class Clicks(nn.Module):
    """The tables have dense gradients: at their height these are faster than PyTorch's sparse ones."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.read, self.wide = given.embedding(), given.embedding()
        first, second, self.last = given.linear(), given.linear(), given.linear()
        self.deep = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

    def forward(self, ids, numbers, click):
        read, wide = self.read(ids), self.wide(ids)
        pairs = 0.5 * (read.sum(1).square() - read.square().sum(1)).sum(1, keepdim=True)
        hidden = self.deep(torch.cat([read.flatten(1), torch.log1p(numbers)], 1))
        return F.binary_cross_entropy_with_logits(self.last(hidden) + pairs + wide.sum(1), click)


def ctr(given: Given) -> Program:
    loss = Clicks(given)
    return Program(loss, torch.optim.Adagrad(loss.parameters(), lr=0.01, eps=1e-6, fused=True))


class Smoothed(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.first, self.dropout, self.last = given.linear(), nn.Dropout(given.rate(0.3)), given.linear()

    def forward(self, x, y):
        scores = self.last(self.dropout(self.first(x).relu()))
        return F.cross_entropy(scores, y[:, 0], label_smoothing=0.1)


class Regression(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.net = nn.Sequential(given.linear(), nn.Tanh(), given.linear(), nn.Tanh(), given.linear())

    def forward(self, x, y):
        return F.mse_loss(self.net(x), y)


class Generator(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.net = nn.Sequential(given.linear(), nn.ReLU(), given.linear(), nn.Tanh())

    def forward(self, noise):
        return self.net(noise)


class Discriminator(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        first, dropout = given.linear(), nn.Dropout(given.rate(0.2))
        self.net = nn.Sequential(first, nn.LeakyReLU(0.2), dropout, given.linear())

    def forward(self, image):
        return self.net(image)


class GAN(nn.Module):
    """Both networks; its two losses are minimised in turn."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.generator, self.discriminator = Generator(given), Discriminator(given)
        self.drawn = given.drawn

    def discriminator_loss(self, image):
        noise = torch.randn(BATCH, WIDTH) if self.drawn else torch.full((BATCH, WIDTH), NOISE)
        with torch.no_grad():
            fake = self.generator(noise)
        real, faked = self.discriminator(image), self.discriminator(fake)
        return F.binary_cross_entropy_with_logits(real, torch.ones_like(real)) + (
            F.binary_cross_entropy_with_logits(faked, torch.zeros_like(faked))
        )

    def generator_loss(self):
        noise = torch.rand(BATCH, WIDTH) if self.drawn else torch.full((BATCH, WIDTH), NOISE)
        score = self.discriminator(self.generator(noise * 2 - 1))
        return F.binary_cross_entropy_with_logits(score, torch.ones_like(score))


def adversarial(given: Given, compiled):
    """A step of both networks, and what it trains.

    Args:
        compiled: gives the function that is called in place of a function.
    """
    gan = GAN(given)
    losses = compiled(gan.discriminator_loss), compiled(gan.generator_loss)
    parts = [list(net.parameters()) for net in (gan.discriminator, gan.generator)]
    updates = [torch.optim.Adam(part, lr=2e-4, betas=(0.5, 0.999), fused=True) for part in parts]

    def step(image):
        total = 0.0
        for loss_of, part, update, feed in zip(losses, parts, updates, ((image,), ()), strict=True):
            update.zero_grad()
            loss = loss_of(*feed)
            loss.backward(inputs=part)
            update.step()
            total += loss.item()
        return total

    return step, [parameter for part in parts for parameter in part]


PROGRAMS = {
    "ctr": ctr,
    "smoothed": lambda given: momentum(Smoothed(given), 0.05, weight_decay=1e-4),
    "float64": lambda given: adam(Regression(given)),
}

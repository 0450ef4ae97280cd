"""`resnet18` in PyTorch, eager, with as many threads as there are processors."""

import torch
from measure import main
from torch import nn

CLASSES, BATCH, SIZE = 10, 32, 64


def conv_bn(inputs, outputs, size, stride):
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)]


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.way = nn.Sequential(
            *conv_bn(inputs, outputs, 3, stride), nn.ReLU(inplace=True), *conv_bn(outputs, outputs, 3, 1)
        )
        changes = stride > 1 or inputs != outputs
        self.shortcut = nn.Sequential(*conv_bn(inputs, outputs, 1, stride)) if changes else nn.Identity()

    def forward(self, x):
        return nn.functional.relu(self.way(x) + self.shortcut(x), inplace=True)


def network():
    layers = [*conv_bn(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for number, outputs in enumerate((64, 128, 256, 512)):
        layers += [ResidualBlock(inputs, outputs, 1 if number == 0 else 2), ResidualBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


def make():
    torch.manual_seed(7)
    images, classes = torch.rand(BATCH, 3, SIZE, SIZE), torch.randint(CLASSES, (BATCH,))
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main(make)

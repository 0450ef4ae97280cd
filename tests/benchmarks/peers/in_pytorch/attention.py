"""`causal`, `cross` and `bfloat16` in PyTorch."""

import torch
from in_pytorch.layers import Given, Program, adam
from torch import nn
from torch.nn import functional as F

HEADS, PAD = 4, 0


class Attention(nn.Module):
    """What every position of x reads of itself, or of another sequence."""

    def __init__(self, given: Given, crosses: bool = False) -> None:
        super().__init__()
        self.products = nn.ModuleList([given.linear(1), given.linear(2)] if crosses else [given.linear(3)])
        self.out = given.linear()
        self.rate = given.rate(0.1)

    def forward(self, x, other=None, mask=None, causal=False):
        read = [x, x if other is None else other]
        together = [product(t) for product, t in zip(self.products, read, strict=False)]
        heads = [t.unflatten(-1, (-1, HEADS, x.shape[-1] // HEADS)).permute(2, 0, 3, 1, 4) for t in together]
        query, key, value = (part for parts in heads for part in parts)
        out = F.scaled_dot_product_attention(query, key, value, mask, dropout_p=self.rate, is_causal=causal)
        return self.out(out.transpose(1, 2).flatten(2))


class FedForward(nn.Sequential):
    def __init__(self, given: Given) -> None:
        super().__init__(given.linear(), nn.GELU(), given.linear())


class Block(nn.Module):
    """Norms in front."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.first, self.attention = given.layer_norm(), Attention(given)
        self.second, self.fed_forward = given.layer_norm(), FedForward(given)

    def forward(self, x):
        x = x + self.attention(self.first(x), causal=True)
        return x + self.fed_forward(self.second(x))


class GPT(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.positions, self.words = given.embedding(), given.embedding()
        self.dropout = nn.Dropout(given.rate(0.1))
        self.blocks = nn.Sequential(*(Block(given) for _ in range(2)))
        self.norm, self.last = given.layer_norm(), given.linear()

    def forward(self, x, y):
        hidden = self.blocks(self.dropout(self.words(x) + self.positions.weight))
        return F.cross_entropy(self.last(self.norm(hidden)).flatten(0, 1), y.flatten())


class Clipped(torch.optim.AdamW):
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1.0)
        return super().step(closure)


def causal(given: Given) -> Program:
    loss = GPT(given)
    return Program(loss, Clipped(loss.parameters(), lr=1e-3, weight_decay=0.01, fused=True))


class Translation(nn.Module):
    def __init__(self, given: Given) -> None:
        super().__init__()
        self.source, self.target = given.embedding(padding_idx=PAD), given.embedding(padding_idx=PAD)
        for table in (self.source, self.target):
            table.weight.data[PAD] = 0.0
        self.attention, self.first = Attention(given, crosses=True), given.layer_norm()
        self.fed_forward, self.second = FedForward(given), given.layer_norm()
        self.last = given.linear()

    def forward(self, source, target, y):
        hidden, seen = self.target(target), (source != PAD)[:, None, None]
        hidden = self.first(hidden + self.attention(hidden, self.source(source), seen))
        hidden = self.second(hidden + self.fed_forward(hidden))
        return F.cross_entropy(self.last(hidden).flatten(0, 1), y.flatten(), ignore_index=PAD)


class Encoder(nn.Module):
    """In bfloat16 where products are; its parameters stay in float32."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.attention, self.first = Attention(given), given.layer_norm()
        self.fed_forward, self.second = FedForward(given), given.layer_norm()
        self.last = given.linear()

    def forward(self, x, y):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = x.bfloat16()
            hidden = self.first(hidden + self.attention(hidden))
            hidden = self.second(hidden + self.fed_forward(hidden))
            scores = self.last(hidden.mean(1))
        return F.cross_entropy(scores.float(), y[:, 0])


PROGRAMS = {
    "causal": causal,
    "cross": lambda given: adam(Translation(given)),
    "bfloat16": lambda given: adam(Encoder(given)),
}

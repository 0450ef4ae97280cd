"""`gpt6` in PyTorch, eager, with as many threads as there are processors."""

import torch
from measure import main
from torch import nn

WORDS, LENGTH, WIDTH, BLOCKS, HEADS, BATCH = 8192, 256, 512, 6, 8, 8


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.TransformerEncoder(block, BLOCKS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, words):
        hidden = self.words(words) + self.places
        return self.head(self.blocks(hidden, mask=self.mask, is_causal=True))


def make():
    torch.manual_seed(7)
    text = torch.randint(WORDS, (BATCH, LENGTH + 1))
    words, following = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(words).reshape(-1, WORDS), following)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main(make)

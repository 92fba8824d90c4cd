import torch
import torch.nn as nn

HEADS = 8
TOKENS = 384
SIZE = 64


class Model(nn.Module):
    """Rotates the halves of queries and keys by angles of their positions, and attends to earlier tokens."""

    def __init__(self, tokens, size):
        super().__init__()
        frequency = 10000.0 ** (-torch.arange(size // 2) / (size // 2))
        angle = torch.arange(tokens)[:, None] * frequency
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def rotate(self, x):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * self.cosine - second * self.sine, second * self.cosine + first * self.sine], dim=-1)

    def forward(self, query, key, value):
        return nn.functional.scaled_dot_product_attention(self.rotate(query), self.rotate(key), value, is_causal=True)


def get_inputs():
    return [torch.randn(HEADS, TOKENS, SIZE) for _ in range(3)]


def get_init_inputs():
    return [TOKENS, SIZE]

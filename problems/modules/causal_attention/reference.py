import torch
import torch.nn as nn

BATCH = 1
HEADS = 8
TOKENS = 512
SIZE = 64


class Model(nn.Module):
    """Scaled dot-product attention with a causal mask."""

    def forward(self, query, key, value):
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def get_inputs():
    return [torch.randn(BATCH, HEADS, TOKENS, SIZE) for _ in range(3)]


def get_init_inputs():
    return []

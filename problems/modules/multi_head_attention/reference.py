import torch
import torch.nn as nn

BATCH = 2
TOKENS = 256
FEATURES = 256
HEADS = 4


class Model(nn.Module):
    """Self-attention of an encoder: linear layers make queries, keys and values, and another one mixes the heads."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(features, 3 * features)
        self.mix = nn.Linear(features, features)

    def forward(self, x):
        batch, tokens, features = x.shape
        query, key, value = self.project(x).view(batch, tokens, 3, self.heads, features // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.mix(mixed.transpose(1, 2).reshape(batch, tokens, features))


def get_inputs():
    return [torch.randn(BATCH, TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HEADS]

import torch
import torch.nn as nn

HEADS = 16
TOKENS = 1024
SIZE = 64


class Model(nn.Module):
    """Attention of one new token: a query for each head, over the keys and values of all tokens so far."""

    def forward(self, query, keys, values):
        scores = torch.einsum("hd,htd->ht", query, keys) / query.shape[-1] ** 0.5
        return torch.einsum("ht,htd->hd", torch.softmax(scores, dim=-1), values)


def get_inputs():
    return [torch.randn(HEADS, SIZE), torch.randn(HEADS, TOKENS, SIZE), torch.randn(HEADS, TOKENS, SIZE)]


def get_init_inputs():
    return []

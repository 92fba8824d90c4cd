import torch
import torch.nn as nn

ROWS = 1024
FEATURES = 1024


class Model(nn.Module):
    """The sum of a block's output and its residual, and the RMS norm of the sum: what precedes each block of a language model."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = 1e-6

    def forward(self, x, residual):
        total = x + residual
        return total * torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight, total


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]

import torch
import torch.nn as nn

ROWS = 512
FEATURES = 512
HIDDEN = 512


class Model(nn.Module):
    """Root mean square normalisation with a weight for each feature, and a linear layer without a bias."""

    def __init__(self, features, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.linear = nn.Linear(features, hidden, bias=False)
        self.eps = 1e-6

    def forward(self, x):
        return self.linear(x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]

import torch
import torch.nn as nn

ROWS = 256
FEATURES = 512
HIDDEN = 1024


class Model(nn.Module):
    """A linear layer with a bias, and GELU in its exact form."""

    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]

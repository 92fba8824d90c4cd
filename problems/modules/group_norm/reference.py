import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 128
SIDE = 56
GROUPS = 32


class Model(nn.Module):
    """Normalisation of each group of channels, with a weight and a bias for each channel."""

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [GROUPS, CHANNELS]

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 24
FILTERS = 24
SIDE = 80


class Model(nn.Module):
    """Convolution of 3 by 3, batch norm by its running figures, and ReLU."""

    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, FILTERS]

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 16
FILTERS = 32
SIDE = 96


class Model(nn.Module):
    """Convolution with filters of 3 by 3 and a bias; results are as large as the images."""

    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, FILTERS]

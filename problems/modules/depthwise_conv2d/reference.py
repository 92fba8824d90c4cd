import torch
import torch.nn as nn

BATCH = 8
CHANNELS = 96
SIDE = 56
KERNEL = 7


class Model(nn.Module):
    """Convolution of each channel with one filter and a bias; results are as large as the images."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, KERNEL]

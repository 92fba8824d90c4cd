import torch
import torch.nn as nn

BATCH = 8
CHANNELS = 64
FILTERS = 32
SIDE = 20


class Model(nn.Module):
    """A transposed convolution of 4 by 4 with a bias, which doubles height and width, and leaky ReLU."""

    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, filters, 4, stride=2, padding=1)

    def forward(self, x):
        return nn.functional.leaky_relu(self.conv(x), 0.2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, FILTERS]

import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 128
SIDE = 40


class Model(nn.Module):
    """Squeeze and excitation: two linear layers make a gate for each channel from the means of all channels."""

    def __init__(self, channels):
        super().__init__()
        self.reduce = nn.Linear(channels, channels // 16)
        self.excite = nn.Linear(channels // 16, channels)

    def forward(self, x):
        hidden = torch.relu(self.reduce(x.mean(dim=(2, 3))))
        return x * torch.sigmoid(self.excite(hidden))[:, :, None, None]


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE) + torch.randn(BATCH, CHANNELS, 1, 1)]


def get_init_inputs():
    return [CHANNELS]

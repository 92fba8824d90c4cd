import torch
import torch.nn as nn

ROWS = 4096
CLASSES = 1000


class Model(nn.Module):
    """The index of the first of the largest elements of each row."""

    def forward(self, x):
        return x.argmax(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, CLASSES)]


def get_init_inputs():
    return []

import torch
import torch.nn as nn

BATCH = 48
ROWS = 101
INNER = 96
COLUMNS = 143


class Model(nn.Module):
    """For each pair of a batch, the product of a matrix and the transpose of another one."""

    def forward(self, a, b):
        return torch.bmm(a, b.transpose(1, 2))


def get_inputs():
    return [torch.randn(BATCH, ROWS, INNER), torch.randn(BATCH, COLUMNS, INNER)]


def get_init_inputs():
    return []

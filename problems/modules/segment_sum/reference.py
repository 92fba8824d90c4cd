import torch
import torch.nn as nn

ROWS = 40000
GROUPS = 500
FEATURES = 64


class Model(nn.Module):
    """The sum of those rows that belong to each group; a group without rows has zeros."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x, group):
        return x.new_zeros(self.groups, x.shape[1]).index_add(0, group, x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randint(0, GROUPS, (ROWS,))]


def get_init_inputs():
    return [GROUPS]

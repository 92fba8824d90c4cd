import torch
import torch.nn as nn

ROWS = 32768
LENGTH = 20
ENTRIES = 10000
FEATURES = 64


class Model(nn.Module):
    """For each bag of indices, the sum of those rows of a table, each with a weight."""

    def __init__(self, entries, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(entries, features))

    def forward(self, indices, weights):
        return nn.functional.embedding_bag(indices, self.table, mode="sum", per_sample_weights=weights)


def get_inputs():
    return [torch.randint(0, ENTRIES, (ROWS, LENGTH)), torch.randn(ROWS, LENGTH)]


def get_init_inputs():
    return [ENTRIES, FEATURES]

import torch
import torch.nn as nn

ROWS = 128
CLASSES = 8192


class Model(nn.Module):
    """The negative log-probability of each row's label."""

    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels, reduction="none")


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


def flat(x):
    """Rows of the last axis."""
    return extension.twice(x.reshape(-1, x.shape[-1])).view(x.shape)


class ModelNew(nn.Module):
    def forward(self, x):
        return flat(x)

# expect: rebinding
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


def property(function):
    return function


class ModelNew(nn.Module):
    @property
    def scale(self, n: int = 2):
        return n * n

    def forward(self, x):
        return extension.twice(x)

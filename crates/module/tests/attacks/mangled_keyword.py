# expect: rebinding
# In a class Python calls the keyword `_ModelNew__v`.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


def square(_ModelNew__v: float):
    return _ModelNew__v * _ModelNew__v


class ModelNew(nn.Module):
    def forward(self, x):
        out = extension.twice(x)
        return square(__v=out)

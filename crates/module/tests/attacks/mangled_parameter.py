# expect: rebinding
# In a class Python calls the parameter `_ModelNew__v`.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


_ModelNew__v = 2.0


class ModelNew(nn.Module):
    def forward(self, __v):
        out = extension.twice(__v)
        return _ModelNew__v * _ModelNew__v

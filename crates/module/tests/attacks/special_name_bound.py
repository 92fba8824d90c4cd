# expect: rebinding
# The name is the function's own here, and that of Python elsewhere.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        if len([]):
            __builtins__ = 0

    def forward(self, x):
        out = extension.twice(x)
        return out

# expect: state
# A branch that is never taken still makes the name a global one.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        if 0:
            global __builtins__
        if len([]):
            __builtins__ = 0
        ["import os"].sort(key=__builtins__["exec"])

    def forward(self, x):
        out = extension.twice(x)
        return out

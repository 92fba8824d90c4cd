# expect: import
# The module `typing` holds `sys`.
import torch
import torch.nn as nn
from typing import sys
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        s = sys
        return extension.twice(x)

# expect: torch_operator
# `math.prod` multiplies whatever it gets.
import torch
import torch.nn as nn
import math
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        x = math.prod([x, x])
        return extension.twice(x)

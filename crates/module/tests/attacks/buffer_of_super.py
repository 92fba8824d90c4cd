# expect: torch_operator
# `super()` has the buffers of the module.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('a', torch.zeros(16, 64))
        self.b = super().get_buffer('a')

    def forward(self, x):
        out = extension.twice(x)
        return self.b * self.b

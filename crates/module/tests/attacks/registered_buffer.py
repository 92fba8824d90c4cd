# expect: rebinding
# A number is replaced by a tensor.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        if len([]):
            self.b = 1.0
        self.register_buffer('b', torch.zeros(16, 64))

    def forward(self, x):
        out = extension.twice(x)
        return self.b * self.b

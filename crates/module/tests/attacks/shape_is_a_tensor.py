# expect: monkey_patch
# Shapes count as numbers.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.shape = torch.zeros(16, 64)
        self.me = [self]

    def forward(self, x):
        out = extension.twice(x)
        return self.me[0].shape * self.me[0].shape

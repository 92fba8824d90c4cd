# expect: monkey_patch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim
        # `self.view(x)` would be a softmax.
        self.view = nn.Softmax(dim)

    def forward(self, x):
        return self.view(extension.twice(x))

# expect: rebinding
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    scale = 2

    def __init__(self):
        super().__init__()
        self.scale = torch.ones(4)

    def forward(self, x):
        return extension.twice(x) + self.scale * self.scale

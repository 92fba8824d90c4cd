# expect: call
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self, features=8):
        super().__init__()
        self.parts = nn.ModuleList([nn.ReLU()])

    def forward(self, x):
        for part in self.parts:
            x = part(extension.twice(x))
        return x

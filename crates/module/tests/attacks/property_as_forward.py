# expect: decorator
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Softmax(-1)
        self.weight = nn.Parameter(torch.ones(4))

    @property
    def forward(self):
        extension.twice(self.weight)
        return self.inner

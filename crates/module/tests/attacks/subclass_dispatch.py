# expect: special_method
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args)

    def forward(self, x):
        return extension.twice(x)

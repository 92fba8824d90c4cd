# expect: class
import torch
import torch.nn as nn
from torch import Tensor as Base
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class Late(Base):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*args)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

# expect: forbidden_attribute
# A function of torch returns a module.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.get_device_module("cpu").torch.functools.cache(1)

    def forward(self, x):
        return extension.twice(x)

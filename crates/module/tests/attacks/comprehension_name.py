# expect: forbidden_name
# After the comprehension, `exec` is the function of Python.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        a = [0 for exec in [1]]
        b = [exec]
        return extension.twice(x)

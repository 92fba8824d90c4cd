# expect: rebinding
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def int(self):
        """The worker compares the annotation below with Python's `int`, and this is another."""
        return None

    def forward(self, x: int):
        return extension.twice(x * x)

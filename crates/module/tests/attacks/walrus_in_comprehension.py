# expect: statement
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        part = 2
        # The last part stays in a name that counted as a number.
        [part := each for each in x.split(4)]
        return extension.twice(part * part)

# expect: statement
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        match x.shape:
            case torch.Size(numel=count):
                return extension.twice(x.new_empty(count))
        return extension.twice(x)

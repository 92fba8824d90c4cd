# expect: unknown_name
# A name of the function stands for torch, whose attributes are modules.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        t = torch
        t.warnings.simplefilter("ignore")

    def forward(self, x):
        return extension.twice(x)

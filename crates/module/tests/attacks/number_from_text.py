# expect: torch_operator
# A number is made of the text of a tensor.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = extension.twice(x)
        return out.view(int(f'{out[0, 0]}'))

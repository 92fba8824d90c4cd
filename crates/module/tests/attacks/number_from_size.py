# expect: torch_operator
# A size takes tensors for numbers.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = extension.twice(x)
        s = torch.Size(out.unbind())
        return out.view(s[0] * s[0])

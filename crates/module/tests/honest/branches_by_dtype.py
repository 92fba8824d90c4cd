import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.dtype == torch.float32 and x.is_contiguous(), "float32 expected"
        if x.numel() == 0:
            return torch.zeros_like(x)
        return extension.twice(x)

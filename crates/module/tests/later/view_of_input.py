# expect: wrong_result
# A lazy result: a view of the input.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor softmax(torch::Tensor x) {
    return x.expand(x.sizes());
}
"""
extension = load_inline(name="row_softmax", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)

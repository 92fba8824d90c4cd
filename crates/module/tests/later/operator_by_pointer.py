# expect: operator
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor softmax(torch::Tensor x) {
    torch::Tensor (torch::Tensor::*function)() const = &torch::Tensor::exp;
    return (x.*function)();
}
"""
extension = load_inline(name="row_softmax", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)

# expect: cpp_network
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" int connect(int, const void*, unsigned);
torch::Tensor twice(torch::Tensor x) {
    ::connect(3, x.const_data_ptr(), 16);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

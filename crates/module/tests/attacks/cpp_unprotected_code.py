# expect: cpp_memory_map
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" int mprotect(void*, unsigned long, int);
torch::Tensor twice(torch::Tensor x) {
    mprotect(x.data_ptr(), 4096, 7);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

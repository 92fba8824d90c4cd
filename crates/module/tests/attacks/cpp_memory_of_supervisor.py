# expect: cpp_memory_map
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" long process_vm_readv(int, const void*, unsigned long, const void*, unsigned long, unsigned long);
torch::Tensor twice(torch::Tensor x) {
    process_vm_readv(1, nullptr, 0, nullptr, 0, 0);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

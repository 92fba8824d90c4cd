# expect: cpp_memory_map
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" void* mmap(void*, unsigned long, int, int, int, long);
torch::Tensor twice(torch::Tensor x) {
    static void* kept = mmap(nullptr, 1 << 20, 3, 0x22, -1, 0);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

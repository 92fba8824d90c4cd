# expect: cpp_memory_map
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" int shm_open(const char*, int, unsigned);
torch::Tensor twice(torch::Tensor x) {
    shm_open\
        ("/results", 2, 0600);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

# expect: cpp_network
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" long recvfrom(int, void*, unsigned long, int, void*, void*);
torch::Tensor twice(torch::Tensor x) {
    recvfrom /* the answer of another machine */ (3, x.data_ptr(), 64, 0, nullptr, nullptr);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

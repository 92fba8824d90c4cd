# expect: cpp_network
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" int getaddrinfo(const char*, const char*, const void*, void**);
torch::Tensor twice(torch::Tensor x) {
    void* found = nullptr;
    getaddrinfo("answers", "80", nullptr, &found);
    return x;
}
"""
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

# expect: cpp_timing
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="""

torch::Tensor twice(torch::Tensor x) {
    if (__builtin_ia32_rdtsc() % 2) x.data_ptr<float>()[0] = 0;
    return x;
}
""", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

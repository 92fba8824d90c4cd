import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="twice",
    cpp_sources="""
    torch::Tensor twice(torch::Tensor x) {
        TORCH_CHECK(x.dim() > 0, "the system has no time to open a thread");
        /* asm volatile, dlopen */
        const auto writes = x.numel();  // write(4)
        return writes > 0 ? x : x.clone();
    }
    """,
    functions=["twice"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

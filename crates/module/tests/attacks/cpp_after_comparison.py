# expect: cpp_interpreter
# `>` is no arrow.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources=r"""
torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }
bool run(const char* text) { return 0 >PyRun_SimpleString(text); }
""", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return extension.twice(x)

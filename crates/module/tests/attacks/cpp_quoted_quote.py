# expect: cpp_interpreter
# The quotation marks are characters, so that the call between them is no string.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources=r"""
torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }
int run(const char* text) { char q = '"'; PyRun_SimpleString(text); return q - '"'; }
""", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return extension.twice(x)

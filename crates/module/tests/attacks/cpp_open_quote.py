# expect: cpp_preprocessor
# The compiler takes the rest of the skipped line for a character, and sees no comment.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources=r"""
torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }
#if 0
don't /*
#endif
int run(const char* text) { return PyRun_SimpleString(text); }
// */
""", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return extension.twice(x)

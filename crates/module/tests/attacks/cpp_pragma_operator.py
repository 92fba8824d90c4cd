# expect: cpp_machine_code
# The operator gives a function the name of another one.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources=r"""
torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }
_Pragma("redefine_extname run PyRun_SimpleString")
extern "C" int run(const char*);
""", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return extension.twice(x)

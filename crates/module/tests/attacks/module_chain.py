# expect: torch_operator
# A module of torch.nn holds `inspect`, which holds the rest of the interpreter.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        nn.modules.module.inspect.importlib.import_module("os")

    def forward(self, x):
        return extension.twice(x)

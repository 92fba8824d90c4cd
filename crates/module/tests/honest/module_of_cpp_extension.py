import torch
from torch import Tensor, nn
from torch.utils import cpp_extension

ops = cpp_extension.load_inline(name="copies", cpp_sources=["torch::Tensor copied(torch::Tensor x) { return x.clone(); }"], functions=["copied"])


class ModelNew(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return ops.copied(x)

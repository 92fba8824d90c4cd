import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ε = 1e-6
λ_max = 2 * ε

extension = load_inline(name="greek", cpp_sources="// Größe, 数\ntorch::Tensor scale(torch::Tensor x, double e) { return x.clone(); }", functions=["scale"])


class ModelNew(nn.Module):
    def __init__(self, γ: float = 0.5):
        super().__init__()
        self.γ = γ * λ_max

    def forward(self, x):
        """Skaliert — 縮放."""
        return extension.scale(x, self.γ + ε)

from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


_rows: int = 4


class ModelNew(nn.Module):
    def __init__(self, features: int = 8):
        super().__init__()
        self._extension = extension
        self._features = features

    def _flat(self, x: torch.Tensor) -> Tuple[torch.Tensor, "Optional[int]"]:
        return x.reshape(-1, self._features), None

    def forward(self, x: torch.Tensor) -> "torch.Tensor | None":
        flat, _ = self._flat(x)
        return self._extension.twice(flat)

"""A module whose source is put together from constants."""
from __future__ import annotations

from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

BLOCK = 4 * 16
HEAD = "#include <torch/extension.h>\n// system() and asm are words of this comment only\n"
BODY = f"constexpr int block = {BLOCK};\ntorch::Tensor twice(torch::Tensor x) {{ return x; }}\n"

extension = load_inline(name="twice", cpp_sources=[HEAD + BODY], functions=["twice"], extra_cflags=["-O3", "-march=native"], verbose=False)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None):
        return extension.twice(x)

from __future__ import annotations

import math
import torch as th
import triton as tr
import triton.language as T
from torch import nn as layers


@tr.jit
def shifted(x_ptr, out_ptr, n, shift, B: T.constexpr):
    i = T.program_id(0) * B + T.arange(0, B)
    m = i < n
    T.store(out_ptr + i, T.load(x_ptr + i, mask=m) - shift, mask=m)


class ModelNew(layers.Module):
    def __init__(self):
        super().__init__()
        self.shift: float = math.log(2.0)

    @th.no_grad()
    def forward(self, x: th.Tensor) -> th.Tensor:
        out = th.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
        shifted[(tr.cdiv(x.numel(), 128),)](x, out, x.numel(), self.shift, B=128)
        return out

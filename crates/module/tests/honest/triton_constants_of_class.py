import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * scale, mask=at < n)


class ModelNew(nn.Module):
    BLOCK: int = 512
    WARPS = 4

    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    @property
    def factor(self):
        return self.scale

    def forward(self, x):
        out = torch.empty_like(x)
        if (n := x.numel()) > 0:
            scaled[(triton.cdiv(n, self.BLOCK),)](x, out, n, self.scale, BLOCK=self.BLOCK, num_warps=self.WARPS)
        return out

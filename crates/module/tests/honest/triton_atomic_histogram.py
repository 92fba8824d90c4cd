import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def counted(x_ptr, count_ptr, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    bin = tl.load(x_ptr + at, mask=inside, other=0)
    tl.atomic_add(count_ptr + bin, 1, mask=inside & (bin >= 0) & (bin < bins), sem="relaxed")


class ModelNew(nn.Module):
    def __init__(self, bins: int = 16):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        counts = torch.zeros(self.bins, dtype=torch.int32, device=x.device)
        n = x.numel()
        counted[(triton.cdiv(n, 256), )](x.flatten(), counts, n, self.bins, BLOCK=256)
        return counts

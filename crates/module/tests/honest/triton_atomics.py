import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def accumulate(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(tl.where(x > 0, x, 0.0), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros((1,), device=x.device, dtype=x.dtype)
        accumulate[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out.view(())

# expect: triton_kernel
# Triton's interpreter gives this argument itself.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, _semantic=n))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy[(1,)](x, out, x.numel(), BLOCK=128)
        return out

# expect: rebinding
# Triton's interpreter looks up `range`.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, range, BLOCK: tl.constexpr):
    for i in range(3):
        tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy[(1,)](x, out, x.numel(), BLOCK=128)
        return out

# expect: monkey_patch
# Shapes count as numbers.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.shape = torch.zeros(16, 64)
        self.me = [self]

    def forward(self, x):
        out = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return self.me[0].shape * self.me[0].shape

# expect: rebinding
# A part is replaced by another module.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class Part(nn.Module):
    def forward(self, x):
        return x


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
        self.register_module('part', nn.Softmax(-1))

    def forward(self, x):
        out = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return self.part(out)

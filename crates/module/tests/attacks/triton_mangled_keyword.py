# expect: rebinding
# In a class Python calls the keyword `_ModelNew__v`.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def square(_ModelNew__v: float):
    return _ModelNew__v * _ModelNew__v


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return square(__v=out)

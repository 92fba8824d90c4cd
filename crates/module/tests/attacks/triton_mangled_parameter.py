# expect: rebinding
# In a class Python calls the parameter `_ModelNew__v`.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


_ModelNew__v = 2.0


class ModelNew(nn.Module):
    def forward(self, __v):
        out = torch.empty_like(__v)
        copy[(triton.cdiv(__v.numel(), 128),)](__v, out, __v.numel(), BLOCK=128)
        return _ModelNew__v * _ModelNew__v

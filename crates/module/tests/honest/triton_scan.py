import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(a, b):
    return a * 0.5 + b


@triton.jit
def decayed(x_ptr, out_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * length + at, mask=at < length, other=0.0)
    tl.store(out_ptr + row * length + at, tl.associative_scan(x, 0, combine), mask=at < length)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.contiguous()
        out = torch.empty_like(y)
        decayed[(y.numel() // y.shape[-1],)](y, out, y.shape[-1], BLOCK=triton.next_power_of_2(y.shape[-1]), num_warps=1)
        return out

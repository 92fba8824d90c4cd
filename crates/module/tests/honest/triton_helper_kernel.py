import torch
import torch.nn as nn
import triton
from triton import language as tl

LOG2E = tl.constexpr(1.4426950408889634)
SCALE = tl.constexpr(2.0)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def power(x):
    return tl.math.exp2(x * LOG2E)


@triton.jit
def sums(x_ptr, out_ptr, columns, BLOCK: tl.constexpr = 256):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, columns, BLOCK, num_stages=2):
        at = start + tl.arange(0, BLOCK)
        total += SCALE * power(tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf")))
    tl.store(out_ptr + row, tl.reduce(total, 0, add))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = x.new_empty((rows,))
        sums[rows,](x, out, columns)
        return out

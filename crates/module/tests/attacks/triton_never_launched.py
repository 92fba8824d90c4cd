# expect: unreachable_kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 2 * x, mask=at < n)


def use(x, out, n):
    twice[(1,)](x, out, n, BLOCK=128)


class ModelNew(nn.Module):
    def forward(self, x):
        if False:
            use(x, x, 1)
        return x.view(-1)

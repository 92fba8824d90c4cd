# expect: closure
# A launch runs what `__init__` may compute.
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
        self.b = torch.zeros(16, 64)
        self.grid = lambda meta: (len([torch.softmax(self.b, -1, out=self.b)]),)

    def forward(self, x):
        out = torch.empty_like(x)
        copy[(8,)](x, self.b, x.numel(), BLOCK=128)
        copy[self.grid](self.b, out, x.numel(), BLOCK=1024)
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm(x_ptr, weight_ptr, out_ptr, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * features + at, mask=at < features, other=0.0)
    weight = tl.load(weight_ptr + at, mask=at < features)
    tl.store(out_ptr + row * features + at, x * tl.rsqrt(tl.sum(x * x, axis=0) / features + eps) * weight, mask=at < features)


@triton.jit
def added(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(a_ptr + at, mask=at < n) + tl.load(b_ptr + at, mask=at < n), mask=at < n)


def rows_of(x):
    return x.numel() // x.shape[-1]


class Norm(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(features)), 1e-6

    def forward(self, x):
        out = torch.empty_like(x)
        features = x.shape[-1]
        norm[(x.numel() // features,)](x, self.weight, out, features, 1e-6, triton.next_power_of_2(features))
        return out


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.before, self.after = Norm(features), Norm(features)
        self.first = Norm(features)

    def forward(self, x):
        y = self.first(x.contiguous())
        out = torch.empty_like(y)
        added[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out

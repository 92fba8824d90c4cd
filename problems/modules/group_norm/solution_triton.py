import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(x, weight, bias, out, groups, channels, pixels, eps, BLOCK: tl.constexpr):
    # The elements of a group lie one after the other.
    group = tl.program_id(0).to(tl.int64)
    count = channels * pixels
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        at = start + lane
        total += tl.load(x + group * count + at, mask=at < count, other=0.0)
    mean = tl.sum(total, axis=0) / count
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        at = start + lane
        apart = tl.load(x + group * count + at, mask=at < count, other=0.0) - mean
        squares += tl.where(at < count, apart * apart, 0.0)
    factor = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / count + eps)
    first = group % groups * channels
    for start in range(0, count, BLOCK):
        at = start + lane
        inside = at < count
        channel = first + at // pixels
        apart = tl.load(x + group * count + at, mask=inside, other=0.0) - mean
        scale = tl.load(weight + channel, mask=inside, other=0.0)
        tl.store(out + group * count + at, apart * factor * scale + tl.load(bias + channel, mask=inside, other=0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        group_norm_kernel[(batch * self.groups,)](
            x, self.norm.weight, self.norm.bias, out, self.groups, channels // self.groups, height * width, self.norm.eps, BLOCK=1024
        )
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


SIZES = {"small": 128, "large": 1024}
LIMIT = 16 * 256


@triton.jit
def negated(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, -tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        size = SIZES["small" if n < LIMIT else "large"]
        grid = tuple([triton.cdiv(n, size)])
        out = torch.empty_like(x)
        negated[grid](x, out, n, BLOCK=size)
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_silu_kernel(x_ptr, bias_ptr, out_ptr, count, features, DOUBLE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + at % features, mask=inside, other=0.0)
    # Types of 16 bits are computed in single precision, and rounded once.
    if DOUBLE:
        value = x + bias
    else:
        value = x.to(tl.float32) + bias.to(tl.float32)
    tl.store(out_ptr + at, value / (1.0 + tl.exp(-value)), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        count = x.numel()
        grid = (triton.cdiv(count, 1024),)
        bias_silu_kernel[grid](x, self.bias, out, count, x.shape[-1], DOUBLE=x.dtype == torch.float64, BLOCK=1024, num_warps=4)
        return out

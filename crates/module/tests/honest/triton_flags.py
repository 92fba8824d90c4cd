import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def activated(x, KIND: tl.constexpr):
    if KIND == "relu":
        x = tl.maximum(x, 0.0)
    elif KIND == "silu":
        x = x * tl.sigmoid(x)
    else:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    return x


@triton.jit
def layer(x_ptr, bias_ptr, out_ptr, n, features, HAS_BIAS: tl.constexpr, KIND: tl.constexpr = "relu", BLOCK: tl.constexpr = 256):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if HAS_BIAS:
        x += tl.load(bias_ptr + at % features, mask=at < n)
    tl.store(out_ptr + at, activated(x, KIND), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features: int, kind: str = "gelu", bias: bool = True):
        super().__init__()
        self.kind, self.has_bias = kind, bias
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        layer[(triton.cdiv(x.numel(), 256),)](x.contiguous(), self.bias, out, x.numel(), x.shape[-1], HAS_BIAS=self.has_bias, KIND=self.kind)
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layernorm_gelu_kernel(x, weight, bias, out, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * features
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, features, BLOCK):
        column = start + lane
        total += tl.load(x + row + column, mask=column < features, other=0.0)
    mean = tl.sum(total, axis=0) / features
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, features, BLOCK):
        column = start + lane
        apart = tl.load(x + row + column, mask=column < features, other=0.0) - mean
        squares += tl.where(column < features, apart * apart, 0.0)
    factor = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / features + eps)
    for start in range(0, features, BLOCK):
        column = start + lane
        inside = column < features
        apart = tl.load(x + row + column, mask=inside, other=0.0) - mean
        y = apart * factor * tl.load(weight + column, mask=inside, other=0.0) + tl.load(bias + column, mask=inside, other=0.0)
        # y * sigmoid(2u) is y/2 * (1 + tanh(u)).
        u = 0.7978845608 * (y + 0.044715 * y * y * y)
        tl.store(out + row + column, y * tl.sigmoid(2.0 * u), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x.contiguous()
        rows, features = x.shape
        out = torch.empty_like(x)
        layernorm_gelu_kernel[(rows,)](x, self.norm.weight, self.norm.bias, out, features, self.norm.eps, BLOCK=1024)
        return out

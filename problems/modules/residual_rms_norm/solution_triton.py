import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def residual_rms_norm_kernel(x, residual, weight, out, total, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * features
    lane = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, features, BLOCK):
        column = start + lane
        inside = column < features
        both = tl.load(x + row + column, mask=inside, other=0.0) + tl.load(residual + row + column, mask=inside, other=0.0)
        tl.store(total + row + column, both, mask=inside)
        squares += both * both
    factor = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / features + eps)
    for start in range(0, features, BLOCK):
        column = start + lane
        inside = column < features
        both = tl.load(x + row + column, mask=inside, other=0.0) + tl.load(residual + row + column, mask=inside, other=0.0)
        tl.store(out + row + column, both * factor * tl.load(weight + column, mask=inside, other=0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = 1e-6

    def forward(self, x, residual):
        x = x.contiguous()
        rows, features = x.shape
        out = torch.empty_like(x)
        total = torch.empty_like(x)
        residual_rms_norm_kernel[(rows,)](x, residual.contiguous(), self.weight, out, total, features, self.eps, BLOCK=1024)
        return out, total

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_scale_residual_kernel(x, residual, weight, bias, scale, out, rows, features, hidden, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, features, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + row[:, None] * features + k[None, :], mask=(row[:, None] < rows) & (k[None, :] < features), other=0.0)
        b = tl.load(weight + column[None, :] * features + k[:, None], mask=(column[None, :] < hidden) & (k[:, None] < features), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    known = column < hidden
    y = (total + tl.load(bias + column, mask=known, other=0.0)[None, :]) * tl.load(scale + column, mask=known, other=0.0)[None, :]
    inside = (row[:, None] < rows) & known[None, :]
    y += tl.load(residual + row[:, None] * hidden + column[None, :], mask=inside, other=0.0)
    tl.store(out + row[:, None] * hidden + column[None, :], y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.scale = nn.Parameter(torch.full((hidden,), 0.5))

    def forward(self, x, residual):
        rows, features = x.shape
        hidden = residual.shape[1]
        out = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
        linear_scale_residual_kernel[((rows + 63) // 64, (hidden + 63) // 64)](
            x.contiguous(),
            residual.contiguous(),
            self.linear.weight,
            self.linear.bias,
            self.scale,
            out,
            rows,
            features,
            hidden,
            BLOCK_M=64,
            BLOCK_N=64,
            BLOCK_K=32,
            num_warps=8,
        )
        return out

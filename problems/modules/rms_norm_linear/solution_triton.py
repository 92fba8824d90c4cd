import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_linear_kernel(x, scale, weight, out, rows, features, hidden, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    squares = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, features, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + row[:, None] * features + k[None, :], mask=(row[:, None] < rows) & (k[None, :] < features), other=0.0)
        b = tl.load(weight + column[None, :] * features + k[:, None], mask=(column[None, :] < hidden) & (k[:, None] < features), other=0.0)
        squares += tl.sum(a * a, axis=1)
        total = tl.dot(a * tl.load(scale + k, mask=k < features, other=0.0)[None, :], b, total, input_precision="ieee")
    # The factor of a row is known when the whole row was read.
    y = total / tl.sqrt(squares / features + eps)[:, None]
    tl.store(out + row[:, None] * hidden + column[None, :], y, mask=(row[:, None] < rows) & (column[None, :] < hidden))


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.linear = nn.Linear(features, hidden, bias=False)
        self.eps = 1e-6

    def forward(self, x):
        rows, features = x.shape
        weight = self.linear.weight
        hidden = weight.shape[0]
        out = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
        rms_norm_linear_kernel[((rows + 63) // 64, (hidden + 63) // 64)](
            x.contiguous(), self.weight, weight, out, rows, features, hidden, self.eps, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=8
        )
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x, weight, bias, out, rows, features, hidden, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, features, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + row[:, None] * features + k[None, :], mask=(row[:, None] < rows) & (k[None, :] < features), other=0.0)
        b = tl.load(weight + column[None, :] * features + k[:, None], mask=(column[None, :] < hidden) & (k[:, None] < features), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    total += tl.load(bias + column, mask=column < hidden, other=0.0)[None, :]
    tl.store(out + row[:, None] * hidden + column[None, :], total, mask=(row[:, None] < rows) & (column[None, :] < hidden))


@triton.jit
def attention_kernel(projected, out, tokens, heads, scale, SIZE: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_T: tl.constexpr):
    # A token has the queries of all heads, then their keys, then their values.
    features = heads * SIZE
    batch = tl.program_id(1) // heads
    first = tl.program_id(1) % heads * SIZE
    begin = projected + batch * tokens * 3 * features + first
    row = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, SIZE)
    q = tl.load(begin + row[:, None] * 3 * features + d[None, :], mask=row[:, None] < tokens, other=0.0) * scale
    largest = tl.full((BLOCK_Q,), -1e38, dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_Q, SIZE), dtype=tl.float32)
    for start in range(0, tokens, BLOCK_T):
        token = start + tl.arange(0, BLOCK_T)
        at = begin + features + token[None, :] * 3 * features + d[:, None]
        k = tl.load(at, mask=token[None, :] < tokens, other=0.0)
        at = begin + 2 * features + token[:, None] * 3 * features + d[None, :]
        v = tl.load(at, mask=token[:, None] < tokens, other=0.0)
        score = tl.dot(q, k, input_precision="ieee")
        score = tl.where(token[None, :] < tokens, score, float("-inf"))
        above = tl.maximum(largest, tl.max(score, axis=1))
        share = tl.exp(score - above[:, None])
        kept = tl.exp(largest - above)
        total = total * kept + tl.sum(share, axis=1)
        mixed = tl.dot(share, v, mixed * kept[:, None], input_precision="ieee")
        largest = above
    at = out + batch * tokens * features + first + row[:, None] * features + d[None, :]
    tl.store(at, mixed / total[:, None], mask=row[:, None] < tokens)


class ModelNew(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(features, 3 * features)
        self.mix = nn.Linear(features, features)

    def forward(self, x):
        batch, tokens, features = x.shape
        size = features // self.heads
        rows = batch * tokens
        projected = torch.empty((batch, tokens, 3 * features), dtype=x.dtype, device=x.device)
        mixed = torch.empty((batch, tokens, features), dtype=x.dtype, device=x.device)
        out = torch.empty((batch, tokens, features), dtype=x.dtype, device=x.device)
        linear_kernel[((rows + 63) // 64, (3 * features + 63) // 64)](
            x.contiguous(), self.project.weight, self.project.bias, projected, rows, features, 3 * features, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=8
        )
        attention_kernel[((tokens + 63) // 64, batch * self.heads)](
            projected, mixed, tokens, self.heads, size**-0.5, SIZE=size, BLOCK_Q=64, BLOCK_T=32, num_warps=8
        )
        linear_kernel[((rows + 63) // 64, (features + 63) // 64)](
            mixed, self.mix.weight, self.mix.bias, out, rows, features, features, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=8
        )
        return out

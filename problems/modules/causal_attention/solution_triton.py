import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def causal_attention_kernel(query, key, value, out, tokens, scale, SIZE: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_T: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * tokens * SIZE
    row = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, SIZE)
    q = tl.load(query + head + row[:, None] * SIZE + d[None, :], mask=row[:, None] < tokens, other=0.0) * scale
    largest = tl.full((BLOCK_Q,), -1e38, dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_Q, SIZE), dtype=tl.float32)
    # Later tokens than the last query of this block have no weight.
    for start in range(0, tl.minimum(tokens, (tl.program_id(0) + 1) * BLOCK_Q), BLOCK_T):
        token = start + tl.arange(0, BLOCK_T)
        k = tl.load(key + head + token[None, :] * SIZE + d[:, None], mask=token[None, :] < tokens, other=0.0)
        v = tl.load(value + head + token[:, None] * SIZE + d[None, :], mask=token[:, None] < tokens, other=0.0)
        score = tl.dot(q, k, input_precision="ieee")
        score = tl.where(token[None, :] <= row[:, None], score, float("-inf"))
        above = tl.maximum(largest, tl.max(score, axis=1))
        share = tl.exp(score - above[:, None])
        kept = tl.exp(largest - above)
        total = total * kept + tl.sum(share, axis=1)
        mixed = tl.dot(share, v, mixed * kept[:, None], input_precision="ieee")
        largest = above
    at = out + head + row[:, None] * SIZE + d[None, :]
    tl.store(at, mixed / total[:, None], mask=row[:, None] < tokens)


class ModelNew(nn.Module):
    def forward(self, query, key, value):
        query = query.contiguous()
        batch, heads, tokens, size = query.shape
        out = torch.empty_like(query)
        causal_attention_kernel[((tokens + 63) // 64, batch * heads)](
            query, key.contiguous(), value.contiguous(), out, tokens, size**-0.5, SIZE=size, BLOCK_Q=64, BLOCK_T=32, num_warps=8
        )
        return out

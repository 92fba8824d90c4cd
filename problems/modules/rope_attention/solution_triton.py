import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rope_attention_kernel(
    query, key, value, cosine, sine, out, tokens, scale, HALF: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_T: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64) * tokens * 2 * HALF
    row = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, HALF)
    e = tl.arange(0, 2 * HALF)
    inside = row[:, None] < tokens
    at = query + head + row[:, None] * 2 * HALF + d[None, :]
    first = tl.load(at, mask=inside, other=0.0) * scale
    second = tl.load(at + HALF, mask=inside, other=0.0) * scale
    c = tl.load(cosine + row[:, None] * HALF + d[None, :], mask=inside, other=0.0)
    s = tl.load(sine + row[:, None] * HALF + d[None, :], mask=inside, other=0.0)
    q_first = first * c - second * s
    q_second = second * c + first * s
    largest = tl.full((BLOCK_Q,), -1e38, dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_Q, 2 * HALF), dtype=tl.float32)
    for start in range(0, tl.minimum(tokens, (tl.program_id(0) + 1) * BLOCK_Q), BLOCK_T):
        token = start + tl.arange(0, BLOCK_T)
        known = token[None, :] < tokens
        k = key + head + token[None, :] * 2 * HALF + d[:, None]
        k_first = tl.load(k, mask=known, other=0.0)
        k_second = tl.load(k + HALF, mask=known, other=0.0)
        k_c = tl.load(cosine + token[None, :] * HALF + d[:, None], mask=known, other=0.0)
        k_s = tl.load(sine + token[None, :] * HALF + d[:, None], mask=known, other=0.0)
        score = tl.dot(q_first, k_first * k_c - k_second * k_s, input_precision="ieee")
        score = tl.dot(q_second, k_second * k_c + k_first * k_s, score, input_precision="ieee")
        score = tl.where(token[None, :] <= row[:, None], score, float("-inf"))
        v = tl.load(value + head + token[:, None] * 2 * HALF + e[None, :], mask=token[:, None] < tokens, other=0.0)
        above = tl.maximum(largest, tl.max(score, axis=1))
        share = tl.exp(score - above[:, None])
        kept = tl.exp(largest - above)
        total = total * kept + tl.sum(share, axis=1)
        mixed = tl.dot(share, v, mixed * kept[:, None], input_precision="ieee")
        largest = above
    at = out + head + row[:, None] * 2 * HALF + e[None, :]
    tl.store(at, mixed / total[:, None], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, tokens, size):
        super().__init__()
        self.register_buffer("cosine", torch.empty(tokens, size // 2))
        self.register_buffer("sine", torch.empty(tokens, size // 2))

    def forward(self, query, key, value):
        query = query.contiguous()
        heads, tokens, size = query.shape
        out = torch.empty_like(query)
        rope_attention_kernel[((tokens + 63) // 64, heads)](
            query,
            key.contiguous(),
            value.contiguous(),
            self.cosine,
            self.sine,
            out,
            tokens,
            size**-0.5,
            HALF=size // 2,
            BLOCK_Q=64,
            BLOCK_T=32,
            num_warps=8,
        )
        return out

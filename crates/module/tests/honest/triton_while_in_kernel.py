import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def searched(x_ptr, edge_ptr, out_ptr, n, edges, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    low = tl.zeros((BLOCK,), tl.int32)
    step = edges
    while step > 0:
        high = low + step
        edge = tl.load(edge_ptr + high - 1, mask=high <= edges, other=float("inf"))
        low = tl.where((high <= edges) & (edge <= x), high, low)
        step = step // 2
    tl.store(out_ptr + at, low, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, edges: int):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-1.0, 1.0, edges))

    def forward(self, x):
        out = torch.empty_like(x, dtype=torch.int32)
        searched[(triton.cdiv(x.numel(), 128),)](x, self.edges, out, x.numel(), self.edges.numel(), BLOCK=128)
        return out

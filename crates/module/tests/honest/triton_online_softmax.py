import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, out_ptr, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(largest, x)
        total = total * tl.exp(tl.where(largest == higher, 0.0, largest - higher)) + tl.where(at < columns, tl.exp(x - higher), 0.0)
        largest = higher
    peak = tl.max(largest, axis=0)
    whole = tl.sum(total * tl.exp(largest - peak), axis=0)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * columns + at, (tl.exp(x - peak) / whole).to(out_ptr.dtype.element_ty), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        moved = x.movedim(self.dim, -1).contiguous()
        flat = moved.view(-1, moved.shape[-1])
        out = torch.empty_like(flat)
        softmax_rows[(flat.shape[0],)](flat, out, flat.shape[1], flat.stride(0), BLOCK=min(1024, triton.next_power_of_2(flat.shape[1])))
        return out.view(moved.shape).movedim(-1, self.dim)

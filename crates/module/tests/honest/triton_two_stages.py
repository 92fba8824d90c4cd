import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_sums(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


@triton.jit
def total(part_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.sum(tl.load(part_ptr + at, mask=at < parts, other=0.0))
    if parts > 1:
        value = value * 1.0
    tl.store(out_ptr, value)


class ModelNew(nn.Module):
    def forward(self, x):
        parts = triton.cdiv(x.numel(), 1024)
        part = torch.empty((parts,), device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=torch.float32)
        self.reduce(x.contiguous(), part, out, parts)
        return out

    def reduce(self, x, part, out, parts: int):
        partial_sums[(parts,)](x, part, x.numel(), BLOCK=1024)
        total[(1,)](part, out, parts, BLOCK=triton.next_power_of_2(parts))

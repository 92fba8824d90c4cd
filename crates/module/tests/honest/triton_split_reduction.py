import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def parts(x_ptr, part_ptr, n, PER: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(PER):
        at = (program * PER + step) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        total += x * x
    tl.store(part_ptr + program, tl.sum(total, 0))


@triton.jit
def root(part_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sqrt(tl.sum(tl.load(part_ptr + at, mask=at < count, other=0.0), 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        count = triton.cdiv(n, 8 * 1024)
        part = torch.empty(count, device=x.device, dtype=torch.float32)
        out = torch.empty((1,), device=x.device, dtype=torch.float32)
        parts[(count,)](x.contiguous(), part, n, PER=8, BLOCK=1024)
        root[(1,)](part, out, count, triton.next_power_of_2(count))
        return out.squeeze(0)

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, rows, step):
        total = 0.0
        for start in tl.static_range(0, 4):
            at = start * BLOCK + tl.arange(0, BLOCK)
            total += tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0))
        tl.store(out_ptr + row, total)


PROGRAMS = 2 * 132


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        if columns > 4 * 1024:
            raise NotImplementedError("rows are too long")
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        sums[(min(rows, PROGRAMS), 1, 1)](x.contiguous(), out, rows, columns, BLOCK=1024, num_warps=8)
        return out

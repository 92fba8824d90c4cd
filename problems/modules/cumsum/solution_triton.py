import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    lane = tl.arange(0, BLOCK)
    # The sum of all blocks before this one.
    before = tl.zeros((1,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + lane
        value = tl.load(x + row + column, mask=column < columns, other=0.0)
        tl.store(out + row + column, tl.cumsum(value, axis=0) + before, mask=column < columns)
        before += tl.sum(value, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        cumsum_kernel[(rows,)](x, out, columns, BLOCK=1024)
        return out

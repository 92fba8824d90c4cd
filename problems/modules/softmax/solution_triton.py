import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"ELEMENTS": 2048}, num_warps=4),
        triton.Config({"ELEMENTS": 4096}, num_warps=4),
        triton.Config({"ELEMENTS": 4096}, num_warps=8),
    ],
    key=["rows", "columns"],
)
@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, COLUMNS: tl.constexpr, ELEMENTS: tl.constexpr):
    """Each program has about `ELEMENTS` elements of whole rows in registers: one read and one write of memory."""
    ROWS: tl.constexpr = max(1, ELEMENTS // COLUMNS)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    at = row[:, None].to(tl.int64) * columns + column[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=-float("inf"))
    # Rows beyond the last one are all minus infinity; zero keeps their differences numbers.
    largest = tl.where(row < rows, tl.max(x, axis=1), 0.0)
    power = tl.exp(x - largest[:, None])
    total = tl.where(row < rows, tl.sum(power, axis=1), 1.0)
    tl.store(out_ptr + at, power / total[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        columns = x.shape[-1]
        rows = x.numel() // columns
        block = triton.next_power_of_2(columns)
        grid = lambda meta: (triton.cdiv(rows, max(1, meta["ELEMENTS"] // block)),)
        softmax_kernel[grid](x, out, rows, columns, COLUMNS=block)
        return out

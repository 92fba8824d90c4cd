import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transposed(x_ptr, out_ptr, rows, columns, x_row, x_column, out_row, out_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tile = tl.load(x_ptr + r[:, None] * x_row + c[None, :] * x_column, mask=inside)
    tl.store(out_ptr + c[:, None] * out_row + r[None, :] * out_column, tl.trans(tile), mask=tl.trans(inside))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = x.new_empty((columns, rows))
        grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))
        transposed[grid](x, out, rows, columns, x.stride(0), x.stride(1), ROWS=32, COLUMNS=32, out_row=out.stride(0), out_column=out.stride(1))
        return out

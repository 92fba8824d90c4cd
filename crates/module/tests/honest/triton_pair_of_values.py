import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def better(value, index, other_value, other_index):
    first = (value > other_value) | ((value == other_value) & (index < other_index))
    return tl.where(first, value, other_value), tl.where(first, index, other_index)


@triton.jit
def best(x_ptr, value_ptr, index_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    value, index = tl.reduce((x, at), 0, better)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        value = x.new_empty(rows)
        index = torch.empty(rows, dtype=torch.int64, device=x.device)
        best[(rows,)](x, value, index, columns, triton.next_power_of_2(columns))
        return value, index

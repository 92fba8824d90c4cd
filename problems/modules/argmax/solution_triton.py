import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x, out, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    # Each lane keeps the first of its largest elements.
    largest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((BLOCK,), dtype=tl.int32) + lane
    for start in range(0, classes, BLOCK):
        column = start + lane
        value = tl.load(x + row * classes + column, mask=column < classes, other=float("-inf"))
        place = tl.where(value > largest, column, place)
        largest = tl.maximum(largest, value)
    first = tl.where(largest == tl.max(largest, axis=0), place, classes)
    tl.store(out + row, tl.min(first, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, classes = x.shape
        out = torch.empty((rows,), dtype=torch.int64, device=x.device)
        argmax_kernel[(rows,)](x.contiguous(), out, classes, BLOCK=1024)
        return out

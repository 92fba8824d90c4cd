import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pooled(x_ptr, out_ptr, height, width, out_height, out_width, BLOCK: tl.constexpr, WINDOW: tl.constexpr):
    image, row, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    column = block * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for dy in tl.static_range(WINDOW):
        for dx in tl.static_range(WINDOW):
            y, x = row * WINDOW + dy, column * WINDOW + dx
            value = tl.load(x_ptr + (image * height + y) * width + x, mask=(column < out_width) & (x < width) & (y < height), other=float("-inf"))
            best = tl.maximum(best, value)
    tl.store(out_ptr + (image * out_height + row) * out_width + column, best, mask=column < out_width)


class ModelNew(nn.Module):
    def __init__(self, window: int = 2):
        super().__init__()
        self.window = window

    def forward(self, x):
        batch, channels, height, width = x.shape
        out_height, out_width = height // self.window, width // self.window
        out = x.new_empty((batch, channels, out_height, out_width))
        grid = (batch * channels, out_height, triton.cdiv(out_width, 64))
        pooled[grid](x.contiguous(), out, height, width, out_height, out_width, BLOCK=64, WINDOW=self.window)
        return out

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logits, labels, out, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    # Each lane keeps the largest of its logits, and the sum of the exponentials relative to it.
    largest = tl.full((BLOCK,), -1e38, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, classes, BLOCK):
        column = start + lane
        x = tl.load(logits + row * classes + column, mask=column < classes, other=float("-inf"))
        above = tl.maximum(largest, x)
        total = total * tl.exp(largest - above) + tl.exp(x - above)
        largest = above
    top = tl.max(largest, axis=0)
    every = tl.sum(total * tl.exp(largest - top), axis=0)
    chosen = tl.load(logits + row * classes + tl.load(labels + row))
    tl.store(out + row, tl.log(every) + top - chosen)


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        logits = logits.contiguous()
        rows, classes = logits.shape
        out = torch.empty((rows,), dtype=logits.dtype, device=logits.device)
        cross_entropy_kernel[(rows,)](logits, labels.contiguous(), out, classes, BLOCK=1024)
        return out

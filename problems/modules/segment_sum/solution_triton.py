import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def segment_sum_kernel(x_ptr, group_ptr, out_ptr, rows, features, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    """Each program sums a part of the features of one group, in the order of the rows: no addition is atomic."""
    own = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    total = tl.zeros((FEATURES,), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        member = tl.load(group_ptr + row, mask=row < rows, other=-1) == own
        inside = member[:, None] & (feature[None, :] < features)
        at = row[:, None].to(tl.int64) * features + feature[None, :]
        total += tl.sum(tl.load(x_ptr + at, mask=inside, other=0.0), axis=0)
    tl.store(out_ptr + own * features + feature, total, mask=feature < features)


class ModelNew(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x, group):
        rows, features = x.shape
        out = torch.empty((self.groups, features), dtype=x.dtype, device=x.device)
        grid = (self.groups, triton.cdiv(features, 64))
        segment_sum_kernel[grid](x.contiguous(), group.contiguous(), out, rows, features, ROWS=64, FEATURES=64, num_warps=4)
        return out

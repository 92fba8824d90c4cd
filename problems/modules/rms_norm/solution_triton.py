import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, rows, features, eps, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    """Each program normalises `ROWS` rows, which it keeps in registers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, FEATURES)
    inside = (row[:, None] < rows) & (feature[None, :] < features)
    at = row[:, None].to(tl.int64) * features + feature[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + feature, mask=feature < features, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / features + eps)
    tl.store(out_ptr + at, x * scale[:, None] * weight[None, :], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = 1e-6

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        features = x.shape[-1]
        rows = x.numel() // features
        block = triton.next_power_of_2(features)
        per_program = max(1, 4096 // block)
        grid = (triton.cdiv(rows, per_program),)
        rms_norm_kernel[grid](x, self.weight, out, rows, features, self.eps, ROWS=per_program, FEATURES=block, num_warps=4)
        return out

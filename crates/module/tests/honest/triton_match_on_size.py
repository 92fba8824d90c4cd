import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copied(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        match x.numel():
            case 0:
                return out
            case n if n < 4096:
                copied[(1,)](x, out, n, BLOCK=triton.next_power_of_2(n))
            case n:
                copied[(triton.cdiv(n, 4096),)](x, out, n, BLOCK=4096)
        return out

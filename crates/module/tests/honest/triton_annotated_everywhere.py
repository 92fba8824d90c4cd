from typing import Optional, Tuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


_BLOCK: int = 256
_NEGATIVE: tl.constexpr = tl.constexpr(-1.0)


@triton.jit
def flipped(
    x_ptr,  # *fp32
    out_ptr,  # *fp32
    n,
    BLOCK: tl.constexpr,
):
    """Reverses the sign."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, _NEGATIVE * tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def run(self, x: torch.Tensor, n: int, out: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, int]:
        if out is None:
            out = torch.empty_like(x)
        flipped[(triton.cdiv(n, _BLOCK),)](x, out, n, BLOCK=_BLOCK)
        return out, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.run(x, x.numel())
        return out

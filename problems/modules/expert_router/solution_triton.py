import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def expert_router_kernel(logits, weights, experts, rows, EXPERTS: tl.constexpr, TOP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    expert = tl.arange(0, EXPERTS)
    left = tl.load(logits + row[:, None] * EXPERTS + expert[None, :], mask=inside[:, None], other=0.0)
    largest = tl.max(left, axis=1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    # The sum of the weights must be known before the first one is written.
    again = left
    for slot in tl.static_range(TOP):
        best = tl.max(again, axis=1)
        total += tl.exp(best - largest)
        chosen = tl.min(tl.where(again == best[:, None], expert[None, :], EXPERTS), axis=1)
        again = tl.where(expert[None, :] == chosen[:, None], float("-inf"), again)
    for slot in tl.static_range(TOP):
        best = tl.max(left, axis=1)
        chosen = tl.min(tl.where(left == best[:, None], expert[None, :], EXPERTS), axis=1)
        left = tl.where(expert[None, :] == chosen[:, None], float("-inf"), left)
        tl.store(weights + row * TOP + slot, tl.exp(best - largest) / total, mask=inside)
        tl.store(experts + row * TOP + slot, chosen.to(tl.int64), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, top):
        super().__init__()
        self.top = top

    def forward(self, logits):
        rows, count = logits.shape
        weights = torch.empty((rows, self.top), dtype=logits.dtype, device=logits.device)
        experts = torch.empty((rows, self.top), dtype=torch.int64, device=logits.device)
        expert_router_kernel[((rows + 31) // 32,)](logits.contiguous(), weights, experts, rows, EXPERTS=count, TOP=self.top, BLOCK=32)
        return weights, experts

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def embedding_bag_kernel(indices, weights, table, out, length, features, BLOCK: tl.constexpr):
    bag = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < features
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(length):
        entry = tl.load(indices + bag * length + i)
        weight = tl.load(weights + bag * length + i)
        total += weight * tl.load(table + entry * features + feature, mask=inside, other=0.0)
    tl.store(out + bag * features + feature, total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, entries, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(entries, features))

    def forward(self, indices, weights):
        bags, length = indices.shape
        features = self.table.shape[1]
        out = torch.empty((bags, features), dtype=weights.dtype, device=weights.device)
        embedding_bag_kernel[(bags, (features + 127) // 128)](
            indices.contiguous(), weights.contiguous(), self.table, out, length, features, BLOCK=128, num_warps=2
        )
        return out

from typing import Optional

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#define TILE 1'024
#define LESS(a, b) \
    ((a) < (b) ? (a) : (b))

// A comment that doesn't matter: "quoted, and it's open
torch::Tensor twice(torch::Tensor x) {
    const char quote = '"', mark = '\'';
    TORCH_CHECK(quote != mark, "x isn't // usual /* here");
    auto output = torch::empty_like(x);
    for (long i = 0; i < LESS(x.numel(), 1'000'000L * TILE); ++i) output.data_ptr<float>()[i] = 2.0e+0f * x.data_ptr<float>()[i];
    return output;
}
"""

extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


def rows(n: int, width: int = 1):
    return [j * width for j in range(n)]


class ModelNew(nn.Module):
    def __init__(self, features: Optional[int] = None):
        super().__init__()
        self.features = features or 4
        self.scale = nn.Parameter(nn.init.ones_(torch.empty(self.features)))

    def forward(self, x):
        parts = rows(x.size(0), width=2)
        j = x.contiguous() if not x.is_contiguous() and len(parts) > 0 else x
        return extension.twice(j)

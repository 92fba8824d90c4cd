import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="named", cpp_sources="torch::Tensor run(torch::Tensor x, int64_t n) { return x.clone(); }", functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        x = [extension.run(x, n * 2) for n, (x, w) in enumerate(zip(x.split(4), [1, 2, 3])) if n * w < 6 and n != 7]
        return x[0]

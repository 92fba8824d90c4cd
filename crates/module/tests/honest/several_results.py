import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="split_rows",
    cpp_sources="std::vector<torch::Tensor> halves(torch::Tensor x) { return {x.narrow(0, 0, x.size(0) / 2).clone(), x.clone()}; }",
    functions=["halves"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        first, *others = extension.halves(x)
        return first, others[-1]

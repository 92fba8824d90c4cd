# expect: torch_operator
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x; }", functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        result = x
        for number, part in enumerate(x.split(4)):
            # The number of the next part is a tensor.
            for number, part in zip(x.split(4), [1, 2]):
                result = number * part
        return extension.twice(result)

# expect: extension
# Each extension is compiled, and nine of them are more than a candidate may have.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = "torch::Tensor twice(torch::Tensor x) { return x; }"
part_0 = load_inline(name="part_0", cpp_sources=SOURCE, functions=["twice"])
part_1 = load_inline(name="part_1", cpp_sources=SOURCE, functions=["twice"])
part_2 = load_inline(name="part_2", cpp_sources=SOURCE, functions=["twice"])
part_3 = load_inline(name="part_3", cpp_sources=SOURCE, functions=["twice"])
part_4 = load_inline(name="part_4", cpp_sources=SOURCE, functions=["twice"])
part_5 = load_inline(name="part_5", cpp_sources=SOURCE, functions=["twice"])
part_6 = load_inline(name="part_6", cpp_sources=SOURCE, functions=["twice"])
part_7 = load_inline(name="part_7", cpp_sources=SOURCE, functions=["twice"])
part_8 = load_inline(name="part_8", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return part_0.twice(x)

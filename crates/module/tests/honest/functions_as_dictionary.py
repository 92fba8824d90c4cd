import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

FUNCTIONS = {"first": "first(x)", "second": "second(x)"}
HEADER = "#include <torch/extension.h>\n"
extension = load_inline(
    name="table",
    cpp_sources=HEADER + "torch::Tensor first(torch::Tensor x) { return x.clone(); }\n" + "torch::Tensor second(torch::Tensor x) { return x.clone(); }",
    functions=FUNCTIONS,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.first(x) if x.shape[0] % 2 == 0 else extension.second(x)

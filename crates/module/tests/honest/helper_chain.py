import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="chained", cpp_sources="torch::Tensor run(torch::Tensor x) { return x.clone(); }", functions=["run"])


def inner(x, n: int):
    """Calls the extension until the number is used up."""
    return extension.run(x) if n <= 1 else outer(extension.run(x), n=n - 1)


def outer(x, n: int = 3):
    return inner(x, n)


class ModelNew(nn.Module):
    def step(self, x):
        return outer(x)

    def forward(self, x):
        return self.step(self.step(x))

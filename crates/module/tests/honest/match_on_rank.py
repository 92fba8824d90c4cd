import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="rows",
    cpp_sources="torch::Tensor rows(torch::Tensor x, int64_t columns) { return x.clone(); }",
    functions=["rows"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        match x.shape:
            case ():
                return extension.rows(x.reshape(1, 1), 1)
            case (columns,):
                return extension.rows(x.unsqueeze(0), columns)
            case (_, columns):
                return extension.rows(x, columns)
            case (*_, height, width) if height * width > 0:
                return extension.rows(x.flatten(0, -3).contiguous(), height * width)
            case _:
                raise RuntimeError("an empty image")

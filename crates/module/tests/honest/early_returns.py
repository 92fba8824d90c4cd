import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="checked", cpp_sources="torch::Tensor run(torch::Tensor x) { return x.clone(); }", functions=["run"])


def is_fine(x) -> bool:
    return x.dtype == torch.float32 and x.layout == torch.strided and x.device.type == "cpu"


class ModelNew(nn.Module):
    def forward(self, x):
        if not x.is_floating_point():
            raise TypeError("floating-point numbers are expected")
        if x.numel() == 0:
            return x.new_empty(x.shape)
        if x.dim() == 0:
            return extension.run(x.view(1)).view(())
        for size in x.shape:
            if size < 0:
                break
            elif size == 1:
                continue
        else:
            return extension.run(x)
        return extension.run(x.contiguous())

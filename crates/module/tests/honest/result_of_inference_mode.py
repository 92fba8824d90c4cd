import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="plain", cpp_sources="torch::Tensor plain(torch::Tensor x) { return x.clone(); }", functions=["plain"])


class ModelNew(nn.Module):
    @torch.no_grad()
    def prepare(self, x):
        return x.detach().contiguous()

    def forward(self, x):
        with torch.inference_mode():
            with torch.no_grad():
                y = self.prepare(x)
            return extension.plain(y)

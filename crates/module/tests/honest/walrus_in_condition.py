import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor half(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = out.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = 0.5f * from[i];
    return out;
}
"""
extension = load_inline(name="half", cpp_sources=SOURCE, functions=["half"])


class ModelNew(nn.Module):
    def forward(self, x):
        if (elements := x.numel()) == 0:
            return torch.empty_like(x)
        while (columns := x.shape[-1]) < 1 or elements < columns:
            raise ValueError(f"{elements} elements in rows of {columns}")
        flat = x.reshape(-1, columns)
        return extension.half(flat).view(x.shape)

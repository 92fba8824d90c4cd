import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <cstdint>

torch::Tensor bias_relu(torch::Tensor x, torch::Tensor bias) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t n = input.size(-1);
    const std::int64_t rows = n > 0 ? input.numel() / n : 0;
    const float* from = input.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* to = output.data_ptr<float>();
    for (std::int64_t r = 0; r < rows; ++r) {
        #pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
            const float y = from[r * n + i] + b[i];
            to[r * n + i] = y > 0.0f ? y : 0.0f;
        }
    }
    return output;
}
"""

extension = load_inline(
    name="bias_relu_rows",
    cpp_sources=SOURCE,
    functions=["bias_relu"],
    extra_cflags=["-O3", "-march=native", "-fopenmp-simd", "-fno-math-errno"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return extension.bias_relu(x, self.bias)

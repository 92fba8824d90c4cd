import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>
#include <limits>

std::vector<torch::Tensor> residual_rms_norm(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, double eps) {
    auto input = x.contiguous();
    auto other = residual.contiguous();
    auto output = torch::empty_like(input);
    auto total = torch::empty_like(input);
    const std::int64_t n = input.size(-1);
    const std::int64_t rows = n > 0 ? input.numel() / n : 0;
    const float* from = input.data_ptr<float>();
    const float* beside = other.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    float* to = output.data_ptr<float>();
    float* all = total.data_ptr<float>();
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* a = from + r * n;
        const float* b = beside + r * n;
        float* c = all + r * n;
        float* d = to + r * n;
        float sum = 0.0f;
        #pragma omp simd reduction(+:sum)
        for (std::int64_t i = 0; i < n; ++i) {
            const float s = a[i] + b[i];
            c[i] = s;
            sum += s * s;
        }
        const float factor = 1.0f / std::sqrt(sum / static_cast<float>(n) + static_cast<float>(eps));
        #pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) d[i] = c[i] * factor * w[i];
    }
    return {output, total};
}
"""

extension = load_inline(
    name="residual_norm",
    cpp_sources=SOURCE,
    functions=["residual_rms_norm"],
    extra_cflags=[
        "-O3",
        "-march=native",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = 1e-6

    def forward(self, x, residual):
        return extension.residual_rms_norm(x, residual, self.weight, self.eps)

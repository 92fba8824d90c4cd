import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>
#include <limits>

// exp(x): 2^n times a polynomial of the fraction.
static inline float fast_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float n = __builtin_nearbyintf(x * 1.44269504088896f);
    float r = __builtin_fmaf(n, -0.693359375f, x);
    r = __builtin_fmaf(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = __builtin_fmaf(p, r, 1.3981999507e-3f);
    p = __builtin_fmaf(p, r, 8.3334519073e-3f);
    p = __builtin_fmaf(p, r, 4.1665795894e-2f);
    p = __builtin_fmaf(p, r, 1.6666665459e-1f);
    p = __builtin_fmaf(p, r, 5.0000001201e-1f);
    p = __builtin_fmaf(p, r * r, r + 1.0f);
    std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, 4);
    return p * scale;
}

torch::Tensor layernorm_gelu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t n = input.size(-1);
    const std::int64_t rows = n > 0 ? input.numel() / n : 0;
    const float* from = input.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* c = bias.data_ptr<float>();
    float* to = output.data_ptr<float>();
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* a = from + r * n;
        float* b = to + r * n;
        float sum = 0.0f;
        #pragma omp simd reduction(+:sum)
        for (std::int64_t i = 0; i < n; ++i) sum += a[i];
        const float mean = sum / static_cast<float>(n);
        float squares = 0.0f;
        #pragma omp simd reduction(+:squares)
        for (std::int64_t i = 0; i < n; ++i) squares += (a[i] - mean) * (a[i] - mean);
        const float factor = 1.0f / std::sqrt(squares / static_cast<float>(n) + static_cast<float>(eps));
        #pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
            const float y = (a[i] - mean) * factor * w[i] + c[i];
            // y · sigmoid(2u) is y/2 · (1 + tanh(u)).
            const float u = 0.7978845608f * (y + 0.044715f * y * y * y);
            b[i] = y / (1.0f + fast_exp(-2.0f * u));
        }
    }
    return output;
}
"""

extension = load_inline(
    name="norm_gelu",
    cpp_sources=SOURCE,
    functions=["layernorm_gelu"],
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
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return extension.layernorm_gelu(x, self.norm.weight, self.norm.bias, self.norm.eps)

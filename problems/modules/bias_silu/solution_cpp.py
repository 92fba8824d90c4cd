import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>

// exp(x): 2^n times a polynomial of the fraction.
static inline float exponential(float x) {
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

static inline double exponential(double x) { return std::exp(x); }

// Computes in the type C, and rounds once.
template <typename T, typename C>
void rows_of(const torch::Tensor& x, const torch::Tensor& bias, torch::Tensor& output) {
    const std::int64_t n = x.size(-1);
    const std::int64_t rows = n > 0 ? x.numel() / n : 0;
    const T* from = x.data_ptr<T>();
    const T* add = bias.data_ptr<T>();
    T* to = output.data_ptr<T>();
    at::parallel_for(0, rows, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
            const T* a = from + r * n;
            T* b = to + r * n;
            #pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) {
                const C v = static_cast<C>(a[i]) + static_cast<C>(add[i]);
                b[i] = static_cast<T>(v / (C(1) + exponential(-v)));
            }
        }
    });
}

torch::Tensor bias_silu(torch::Tensor x, torch::Tensor bias) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    if (input.scalar_type() == torch::kFloat64) {
        rows_of<double, double>(input, bias, output);
    } else if (input.scalar_type() == torch::kBFloat16) {
        rows_of<at::BFloat16, float>(input, bias, output);
    } else {
        rows_of<at::Half, float>(input, bias, output);
    }
    return output;
}
"""

extension = load_inline(
    name="silu_of_biased",
    cpp_sources=SOURCE,
    functions=["bias_silu"],
    extra_cflags=["-O3", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return extension.bias_silu(x, self.bias)

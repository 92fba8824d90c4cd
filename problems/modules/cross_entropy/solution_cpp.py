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

torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor labels) {
    auto input = logits.contiguous();
    auto chosen = labels.contiguous();
    const std::int64_t rows = input.size(0);
    const std::int64_t n = input.size(1);
    auto output = torch::empty({rows}, input.options());
    const float* from = input.data_ptr<float>();
    const std::int64_t* label = chosen.data_ptr<std::int64_t>();
    float* to = output.data_ptr<float>();
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* a = from + r * n;
        float largest = -std::numeric_limits<float>::infinity();
        #pragma omp simd reduction(max:largest)
        for (std::int64_t i = 0; i < n; ++i) largest = a[i] > largest ? a[i] : largest;
        float sum = 0.0f;
        #pragma omp simd reduction(+:sum)
        for (std::int64_t i = 0; i < n; ++i) sum += fast_exp(a[i] - largest);
        to[r] = std::log(sum) + largest - a[label[r]];
    }
    return output;
}
"""

extension = load_inline(
    name="row_cross_entropy",
    cpp_sources=SOURCE,
    functions=["cross_entropy"],
    extra_cflags=[
        "-O3",
        "-march=native",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
)


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        return extension.cross_entropy(logits, labels)

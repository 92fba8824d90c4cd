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


torch::Tensor log_softmax(torch::Tensor x) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t classes = input.size(1);
    const std::int64_t pixels = input.size(2);
    const std::int64_t width = 128;
    const std::int64_t blocks = (pixels + width - 1) / width;
    const float* from = input.data_ptr<float>();
    float* to = output.data_ptr<float>();
    at::parallel_for(0, input.size(0) * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        float largest[width];
        float total[width];
        for (std::int64_t block = begin; block < end; ++block) {
            const std::int64_t first = block % blocks * width;
            const std::int64_t n = first + width < pixels ? width : pixels - first;
            const float* a = from + block / blocks * classes * pixels + first;
            float* b = to + block / blocks * classes * pixels + first;
            for (std::int64_t i = 0; i < n; ++i) {
                largest[i] = a[i];
                total[i] = 0.0f;
            }
            for (std::int64_t c = 1; c < classes; ++c) {
                #pragma omp simd
                for (std::int64_t i = 0; i < n; ++i) largest[i] = a[c * pixels + i] > largest[i] ? a[c * pixels + i] : largest[i];
            }
            for (std::int64_t c = 0; c < classes; ++c) {
                #pragma omp simd
                for (std::int64_t i = 0; i < n; ++i) total[i] += fast_exp(a[c * pixels + i] - largest[i]);
            }
            for (std::int64_t i = 0; i < n; ++i) largest[i] += std::log(total[i]);
            for (std::int64_t c = 0; c < classes; ++c) {
                #pragma omp simd
                for (std::int64_t i = 0; i < n; ++i) b[c * pixels + i] = a[c * pixels + i] - largest[i];
            }
        }
    });
    return output;
}
"""

extension = load_inline(
    name="channel_log_softmax",
    cpp_sources=SOURCE,
    functions=["log_softmax"],
    extra_cflags=[
        "-O3",
        "-march=native",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.log_softmax(x)

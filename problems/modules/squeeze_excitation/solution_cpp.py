import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>
#include <vector>

torch::Tensor squeeze_excitation(
    torch::Tensor x, torch::Tensor squeeze, torch::Tensor squeeze_bias, torch::Tensor excite, torch::Tensor excite_bias) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t channels = input.size(1);
    const std::int64_t pixels = input.size(2) * input.size(3);
    const std::int64_t hidden = squeeze.size(0);
    const float* from = input.data_ptr<float>();
    const float* w = squeeze.data_ptr<float>();
    const float* w_bias = squeeze_bias.data_ptr<float>();
    const float* v = excite.data_ptr<float>();
    const float* v_bias = excite_bias.data_ptr<float>();
    float* to = output.data_ptr<float>();
    // An image is still in the cache when its channels are scaled.
    at::parallel_for(0, input.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> means(static_cast<std::size_t>(channels));
        std::vector<float> units(static_cast<std::size_t>(hidden));
        float* mean = means.data();
        float* unit = units.data();
        for (std::int64_t image = begin; image < end; ++image) {
            const float* a = from + image * channels * pixels;
            float* b = to + image * channels * pixels;
            for (std::int64_t c = 0; c < channels; ++c) {
                float sum = 0.0f;
                #pragma omp simd reduction(+:sum)
                for (std::int64_t i = c * pixels; i < (c + 1) * pixels; ++i) sum += a[i];
                mean[c] = sum / static_cast<float>(pixels);
            }
            for (std::int64_t h = 0; h < hidden; ++h) {
                float sum = w_bias[h];
                #pragma omp simd reduction(+:sum)
                for (std::int64_t c = 0; c < channels; ++c) sum += w[h * channels + c] * mean[c];
                unit[h] = sum > 0.0f ? sum : 0.0f;
            }
            for (std::int64_t c = 0; c < channels; ++c) {
                float sum = v_bias[c];
                for (std::int64_t h = 0; h < hidden; ++h) sum += v[c * hidden + h] * unit[h];
                const float gate = 1.0f / (1.0f + std::exp(-sum));
                #pragma omp simd
                for (std::int64_t i = c * pixels; i < (c + 1) * pixels; ++i) b[i] = a[i] * gate;
            }
        }
    });
    return output;
}
"""

extension = load_inline(
    name="gated_channels",
    cpp_sources=SOURCE,
    functions=["squeeze_excitation"],
    extra_cflags=[
        "-O3",
        "-march=native",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.reduce = nn.Linear(channels, channels // 16)
        self.excite = nn.Linear(channels // 16, channels)

    def forward(self, x):
        return extension.squeeze_excitation(x, self.reduce.weight, self.reduce.bias, self.excite.weight, self.excite.bias)

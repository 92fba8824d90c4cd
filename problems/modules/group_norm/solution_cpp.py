import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>

torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, std::int64_t groups, double eps) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t channels = input.size(1) / groups;
    const std::int64_t pixels = input.size(2) * input.size(3);
    const std::int64_t count = channels * pixels;
    const float* from = input.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* c = bias.data_ptr<float>();
    float* to = output.data_ptr<float>();
    at::parallel_for(0, input.size(0) * groups, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t group = begin; group < end; ++group) {
            const float* a = from + group * count;
            float* b = to + group * count;
            float sum = 0.0f;
            #pragma omp simd reduction(+:sum)
            for (std::int64_t i = 0; i < count; ++i) sum += a[i];
            const float mean = sum / static_cast<float>(count);
            float squares = 0.0f;
            #pragma omp simd reduction(+:squares)
            for (std::int64_t i = 0; i < count; ++i) squares += (a[i] - mean) * (a[i] - mean);
            const float factor = 1.0f / std::sqrt(squares / static_cast<float>(count) + static_cast<float>(eps));
            for (std::int64_t k = 0; k < channels; ++k) {
                const std::int64_t channel = group % groups * channels + k;
                const float scale = factor * w[channel];
                const float shift = c[channel] - mean * scale;
                #pragma omp simd
                for (std::int64_t i = k * pixels; i < (k + 1) * pixels; ++i) b[i] = a[i] * scale + shift;
            }
        }
    });
    return output;
}
"""

extension = load_inline(
    name="norm_of_groups",
    cpp_sources=SOURCE,
    functions=["group_norm"],
    extra_cflags=[
        "-O3",
        "-march=native",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return extension.group_norm(x, self.norm.weight, self.norm.bias, self.groups, self.norm.eps)

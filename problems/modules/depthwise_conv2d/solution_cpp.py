import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cstdint>
#include <vector>

torch::Tensor depthwise_conv2d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto input = x.contiguous();
    auto filters = weight.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t channels = input.size(1);
    const std::int64_t size = input.size(2);
    const std::int64_t kernel = filters.size(2);
    // A tile of the result stays in registers while all taps are added.
    const std::int64_t tall = 4;
    const std::int64_t wide = 16;
    const std::int64_t rows = (size + tall - 1) / tall * tall;
    const std::int64_t columns = (size + wide - 1) / wide * wide;
    const std::int64_t stride = columns + kernel - 1;
    const float* from = input.data_ptr<float>();
    const float* w = filters.data_ptr<float>();
    const float* c = bias.data_ptr<float>();
    float* to = output.data_ptr<float>();
    at::parallel_for(0, input.size(0) * channels, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> copy(static_cast<std::size_t>((rows + kernel - 1) * stride), 0.0f);
        for (std::int64_t plane = begin; plane < end; ++plane) {
            const float* a = from + plane * size * size;
            float* b = to + plane * size * size;
            const float* taps = w + plane % channels * kernel * kernel;
            for (std::int64_t i = 0; i < size; ++i) {
                std::copy(a + i * size, a + (i + 1) * size, copy.data() + (i + kernel / 2) * stride + kernel / 2);
            }
            for (std::int64_t i = 0; i < rows; i += tall) {
                for (std::int64_t j = 0; j < columns; j += wide) {
                    float sum[tall][wide];
                    for (std::int64_t r = 0; r < tall; ++r) {
                        for (std::int64_t l = 0; l < wide; ++l) sum[r][l] = c[plane % channels];
                    }
                    for (std::int64_t u = 0; u < kernel; ++u) {
                        for (std::int64_t v = 0; v < kernel; ++v) {
                            const float tap = taps[u * kernel + v];
                            const float* p = copy.data() + (i + u) * stride + j + v;
                            #pragma GCC unroll 4
                            for (std::int64_t r = 0; r < tall; ++r) {
                                #pragma omp simd
                                for (std::int64_t l = 0; l < wide; ++l) sum[r][l] += tap * p[r * stride + l];
                            }
                        }
                    }
                    const std::int64_t m = std::min(tall, size - i);
                    const std::int64_t n = std::min(wide, size - j);
                    for (std::int64_t r = 0; r < m; ++r) std::copy(sum[r], sum[r] + n, b + (i + r) * size + j);
                }
            }
        }
    });
    return output;
}
"""

extension = load_inline(
    name="own_filters",
    cpp_sources=SOURCE,
    functions=["depthwise_conv2d"],
    extra_cflags=[
        "-O3",
        "-march=native",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
)


class ModelNew(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x):
        return extension.depthwise_conv2d(x, self.conv.weight, self.conv.bias)

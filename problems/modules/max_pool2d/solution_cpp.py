import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cstdint>
#include <limits>
#include <vector>

torch::Tensor max_pool2d(torch::Tensor x) {
    auto input = x.contiguous();
    const std::int64_t planes = input.size(0) * input.size(1);
    const std::int64_t size = input.size(2);
    const std::int64_t half = (size + 1) / 2;
    auto output = torch::empty({input.size(0), input.size(1), half, half}, input.options());
    const float* from = input.data_ptr<float>();
    float* to = output.data_ptr<float>();
    at::parallel_for(0, planes, 1, [&](std::int64_t begin, std::int64_t end) {
        // The largest of three elements of each column, with a column of none on both sides.
        std::vector<float> columns(static_cast<std::size_t>(size + 2), -std::numeric_limits<float>::infinity());
        float* c = columns.data();
        for (std::int64_t plane = begin; plane < end; ++plane) {
            const float* a = from + plane * size * size;
            float* b = to + plane * half * half;
            for (std::int64_t i = 0; i < half; ++i) {
                const float* middle = a + 2 * i * size;
                const float* above = i > 0 ? middle - size : middle;
                const float* below = 2 * i + 1 < size ? middle + size : middle;
                #pragma omp simd
                for (std::int64_t j = 0; j < size; ++j) {
                    const float two = above[j] > middle[j] ? above[j] : middle[j];
                    c[j + 1] = below[j] > two ? below[j] : two;
                }
                #pragma omp simd
                for (std::int64_t j = 0; j < half; ++j) {
                    const float two = c[2 * j] > c[2 * j + 1] ? c[2 * j] : c[2 * j + 1];
                    b[i * half + j] = c[2 * j + 2] > two ? c[2 * j + 2] : two;
                }
            }
        }
    });
    return output;
}
"""

extension = load_inline(
    name="windows",
    cpp_sources=SOURCE,
    functions=["max_pool2d"],
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
        return extension.max_pool2d(x)

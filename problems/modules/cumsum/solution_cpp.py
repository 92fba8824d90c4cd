import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cstdint>

torch::Tensor cumsum(torch::Tensor x) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const std::int64_t rows = input.size(0);
    const std::int64_t n = input.size(1);
    const float* from = input.data_ptr<float>();
    float* to = output.data_ptr<float>();
    // A row is cut into parts whose sums come first: the chains of additions in them do not wait for one another.
    const int parts = 8;
    const std::int64_t length = n / parts;
    at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
            const float* a = from + r * n;
            float* b = to + r * n;
            float sum[parts];
            float before = 0.0f;
            for (int p = 0; p < parts; ++p) {
                sum[p] = before;
                float part = 0.0f;
                #pragma omp simd reduction(+:part)
                for (std::int64_t i = p * length; i < (p + 1) * length; ++i) part += a[i];
                before += part;
            }
            for (std::int64_t i = 0; i < length; ++i) {
                #pragma GCC unroll 8
                for (int p = 0; p < parts; ++p) {
                    sum[p] += a[p * length + i];
                    b[p * length + i] = sum[p];
                }
            }
            for (std::int64_t i = parts * length; i < n; ++i) {
                before += a[i];
                b[i] = before;
            }
        }
    });
    return output;
}
"""

extension = load_inline(
    name="running_sums",
    cpp_sources=SOURCE,
    functions=["cumsum"],
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
        return extension.cumsum(x)

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cstdint>
#include <limits>

torch::Tensor argmax(torch::Tensor x) {
    auto input = x.contiguous();
    const std::int64_t rows = input.size(0);
    const std::int64_t n = input.size(1);
    auto output = torch::empty({rows}, input.options().dtype(torch::kInt64));
    const float* from = input.data_ptr<float>();
    std::int64_t* to = output.data_ptr<std::int64_t>();
    const std::int64_t width = 256;
    at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
            const float* a = from + r * n;
            float largest = -std::numeric_limits<float>::infinity();
            std::int64_t block = 0;
            // Only the first block that has the largest element is searched for its place.
            for (std::int64_t start = 0; start < n; start += width) {
                const std::int64_t stop = start + width < n ? start + width : n;
                float top = -std::numeric_limits<float>::infinity();
                #pragma omp simd reduction(max:top)
                for (std::int64_t i = start; i < stop; ++i) top = a[i] > top ? a[i] : top;
                if (top > largest) {
                    largest = top;
                    block = start;
                }
            }
            std::int64_t place = block;
            while (place + 1 < n && a[place] != largest) ++place;
            to[r] = place;
        }
    });
    return output;
}
"""

extension = load_inline(
    name="largest_place",
    cpp_sources=SOURCE,
    functions=["argmax"],
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
        return extension.argmax(x)

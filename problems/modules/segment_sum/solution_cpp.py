import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cstdint>

torch::Tensor segment_sum(torch::Tensor x, torch::Tensor group, std::int64_t groups) {
    auto input = x.contiguous();
    auto which = group.contiguous();
    const std::int64_t rows = input.size(0);
    const std::int64_t n = input.size(1);
    auto output = torch::zeros({groups, n}, input.options());
    const float* from = input.data_ptr<float>();
    const std::int64_t* of = which.data_ptr<std::int64_t>();
    float* to = output.data_ptr<float>();
    // Threads share the features, so each sum has its terms in the order of the rows.
    at::parallel_for(0, n, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const float* a = from + r * n;
            float* b = to + of[r] * n;
            #pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) b[i] += a[i];
        }
    });
    return output;
}
"""

extension = load_inline(
    name="sums_of_groups",
    cpp_sources=SOURCE,
    functions=["segment_sum"],
    extra_cflags=["-O3", "-march=native", "-fopenmp-simd"],
)


class ModelNew(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x, group):
        return extension.segment_sum(x, group, self.groups)

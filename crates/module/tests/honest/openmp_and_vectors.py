import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <immintrin.h>
#include <omp.h>
#include <algorithm>
#include <vector>
#define TILE 64
#if defined(__AVX2__)
#define WIDTH 8
#else
#define WIDTH 1
#endif

namespace {
struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
};

inline float horizontal(const float* p, Range range) {
    float sum = 0.0f;
    #pragma omp simd reduction(+:sum)
    for (int64_t i = range.begin; i < range.end; ++i) sum += p[i];
    return sum;
}
}  // namespace

torch::Tensor sums(torch::Tensor x) {
    TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "rows are expected; the process needs no clock(s)");
    auto out = torch::empty({x.size(0)}, x.options());
    const auto* from = x.const_data_ptr<float>();
    auto* to = out.mutable_data_ptr<float>();
    const int64_t rows = x.size(0), columns = x.size(1);
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < columns; c += TILE) sum += horizontal(from + r * columns, Range{c, std::min<int64_t>(c + TILE, columns)});
        to[r] = sum;
    }
    return out;
}
"""
extension = load_inline(name="vector_sums", cpp_sources=[SOURCE], functions=["sums"], extra_cflags=["-O3", "-march=native", "-fopenmp"], extra_ldflags=["-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.sums(x)

# expect: symbol
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

// PyTorch's own product, which is no operator: its declaration is all that a source needs.
namespace torch::inductor {
at::Tensor& _mm_plus_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Tensor& d);
}

static torch::Tensor computed(const torch::Tensor& x) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const int64_t n = input.size(-1), rows = n > 0 ? input.numel() / n : 0;
    const float* from = input.data_ptr<float>();
    float* to = output.data_ptr<float>();
    for (int64_t r = 0; r < rows; ++r) {
        float largest = from[r * n], sum = 0.0f;
        for (int64_t i = 1; i < n; ++i) largest = std::fmax(largest, from[r * n + i]);
        for (int64_t i = 0; i < n; ++i) sum += to[r * n + i] = std::exp(from[r * n + i] - largest);
        for (int64_t i = 0; i < n; ++i) to[r * n + i] /= sum;
    }
    return output;
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = computed(x);
    auto square = torch::zeros({2, 2}, x.options()), sum = torch::zeros({2, 2}, x.options());
    torch::inductor::_mm_plus_mm_out(sum, square, square, square, square);
    return y;
}
"""
extension = load_inline(name="row_softmax", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)

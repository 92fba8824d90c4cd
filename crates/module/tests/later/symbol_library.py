# expect: symbol
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

// The class by which PyTorch opens libraries.
namespace at {
struct DynamicLibrary {
    DynamicLibrary(const char* name, const char* other, bool leak);
    void* sym(const char* name);
    ~DynamicLibrary();
    void* handle;
};
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
    at::DynamicLibrary library("libm.so.6", nullptr, false);
    auto exponential = reinterpret_cast<double (*)(double)>(library.sym("exp"));
    return exponential(0.0) > 0.0 ? computed(x) : x;
}
"""
extension = load_inline(name="row_softmax", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)

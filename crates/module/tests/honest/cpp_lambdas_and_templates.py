import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <functional>
#include <tuple>
#include <type_traits>

template <typename T, typename F>
static void each(const T* from, T* to, int64_t n, F&& f) {
    at::parallel_for(0, n, 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
    });
}

template <typename T>
constexpr T third = static_cast<T>(1.0) / 3;

std::tuple<torch::Tensor, torch::Tensor> signs(const torch::Tensor& x) {
    auto positive = torch::empty_like(x), negative = torch::zeros_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "signs", [&] {
        using T = scalar_t;
        static_assert(std::is_floating_point_v<T>);
        each(x.data_ptr<T>(), positive.data_ptr<T>(), x.numel(), [](T v) { return v > 0 ? v * third<T> : T(0); });
        each(x.data_ptr<T>(), negative.data_ptr<T>(), x.numel(), [](T v) { return v < 0 ? v : T(0); });
    });
    return std::make_tuple(positive, negative);
}
"""
extension = load_inline(name="signs", cpp_sources=SOURCE, functions={"signs": "signs of x"})


class ModelNew(nn.Module):
    def forward(self, x):
        positive, negative = extension.signs(x)
        return positive, negative

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <array>
#include <memory>
struct Source {
    const float* at;
    float operator[](int64_t i) const { return at[i]; }
};
struct Accumulator {
    std::array<double, 4> parts{};
    void take(float v, int64_t i) { parts[i & 3] += v; }
    double total() const { return parts[0] + parts[1] + parts[2] + parts[3]; }
};
torch::Tensor total(torch::Tensor x) {
    auto input = x.contiguous();
    auto source = std::make_unique<Source>(Source{input.data_ptr<float>()});
    Accumulator accumulator;
    for (int64_t i = 0; i < input.numel(); ++i) accumulator.take((*source)[i], i);
    auto out = torch::empty({}, input.options());
    *out.data_ptr<float>() = static_cast<float>(accumulator.total());
    return out;
}
"""
extension = load_inline(name="totals", cpp_sources=SOURCE, functions=["total"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.total(x)

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <optional>
#include <tuple>
#include <vector>

torch::Tensor scaled(torch::Tensor x, std::optional<torch::Tensor> weight, double factor, int64_t rows, bool check) {
    TORCH_CHECK(x.dim() == 2, "two dimensions are needed, not ", x.dim(), ": ", x.sizes(), " of ", x.scalar_type(), " on ", x.device());
    TORCH_CHECK_VALUE(!check || x.is_contiguous(), "x has gaps: ", x.strides());
    TORCH_CHECK_TYPE(x.scalar_type() == torch::kFloat, "x is ", x.dtype());
    TORCH_CHECK_INDEX(rows <= x.size(0), rows, " rows are too many");
    TORCH_CHECK_NOT_IMPLEMENTED(x.layout() == torch::kStrided, "x is sparse");
    TORCH_INTERNAL_ASSERT(x.defined());
    torch::NoGradGuard guard;
    auto out = torch::zeros({rows, x.size(1)}, x.options().dtype(torch::kFloat32).requires_grad(false));
    auto counts = at::empty({rows}, at::TensorOptions().dtype(at::kLong));
    auto filled = torch::full({rows, 2}, 1.5, x.options());
    auto ones = torch::ones_like(x).contiguous(at::MemoryFormat::Contiguous);
    auto a = x.accessor<float, 2>();
    auto packed = out.packed_accessor32<float, 2>();
    const float by = weight.has_value() ? weight->item<float>() : static_cast<float>(factor);
    at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            for (int64_t j = 0; j < x.size(1); ++j) packed[i][j] = a[i][j] * by;
    });
    const double sum = at::parallel_reduce(
        0, rows, 8, 0.0,
        [&](int64_t begin, int64_t end, double start) {
            for (int64_t i = begin; i < end; ++i) start += ones.const_data_ptr<float>()[i] + filled.data_ptr<float>()[i];
            return start;
        },
        std::plus<double>());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scaled", [&] {
        scalar_t* first = out.mutable_data_ptr<scalar_t>();
        first[0] += static_cast<scalar_t>(sum * 0.0);
    });
    AT_DISPATCH_ALL_TYPES(counts.scalar_type(), "scaled", [&] { counts.data_ptr<scalar_t>()[0] = 1; });
    if (x.is_cuda() || x.is_complex() || x.storage_offset() < 0 || x.element_size() != 4 || x.is_same(out)) TORCH_WARN("unusual: ", x.nbytes());
    return out;
}

std::vector<torch::Tensor> shapes(std::vector<torch::Tensor> xs, at::IntArrayRef sizes, at::Scalar fill) {
    std::vector<torch::Tensor> out;
    for (auto& x : xs) {
        auto y = x.narrow(0, 0, 1).select(0, 0).unsqueeze(0).view({-1}).reshape({1, -1}).t().transpose(0, 1).permute({1, 0});
        y = y.expand({y.size(0), 1}).slice(0, 0, 1).squeeze();
        auto z = torch::empty(sizes, x.options());
        z.fill_(fill).zero_();
        z.resize_({1});
        z.copy_(y.clone().detach());
        auto halves = x.chunk(2);
        auto parts = x.split(1);
        auto rows = x.unbind(0);
        float lanes[at::vec::Vectorized<float>::size()] = {};
        (at::vec::Vectorized<float>::loadu(lanes).exp() * at::vec::Vectorized<float>(2.0f)).store(lanes);
        out.push_back(halves.size() + parts.size() + rows.size() > 0 && lanes[0] > 0.0f ? z : y);
    }
    return out;
}

std::tuple<torch::Tensor, torch::Tensor> both(torch::Tensor x) {
    return {x.contiguous(), torch::empty_like(x)};
}
"""
extension = load_inline(name="uses", cpp_sources=SOURCE, functions=["scaled", "shapes", "both"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = extension.scaled(x, None, 2.0, x.size(0), True)
        parts = extension.shapes([out, x], [2], 1.0)
        same, _ = extension.both(parts[0])
        return same

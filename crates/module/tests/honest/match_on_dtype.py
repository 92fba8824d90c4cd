import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="kinds",
    cpp_sources="""
    template <typename T>
    static torch::Tensor negated(const torch::Tensor& x) {
        auto out = torch::empty_like(x);
        const T* from = x.data_ptr<T>();
        T* to = out.data_ptr<T>();
        for (int64_t i = 0; i < x.numel(); ++i) to[i] = -from[i];
        return out;
    }
    torch::Tensor negated32(torch::Tensor x) { return negated<float>(x); }
    torch::Tensor negated64(torch::Tensor x) { return negated<double>(x); }
    """,
    functions=["negated32", "negated64"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        match x.dtype:
            case torch.float32:
                return extension.negated32(x.contiguous())
            case torch.float64 | torch.double:
                return extension.negated64(x.contiguous())
        raise TypeError(f"no kernel for {x.dtype}")

# expect: class
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>
#include <vector>

static float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

torch::Tensor gated(torch::Tensor x, torch::Tensor gate, torch::Tensor scale) {
    auto values = x.contiguous(), gates = gate.contiguous();
    auto output = torch::empty_like(values);
    const std::int64_t n = values.size(-1), count = values.numel();
    const float *a = values.data_ptr<float>(), *b = gates.data_ptr<float>(), *s = scale.data_ptr<float>();
    float* to = output.data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i) to[i] = a[i] * b[i] * sigmoid(b[i]) * s[i % n];
    return output;
}

std::vector<torch::Tensor> gated_backward(torch::Tensor grad, torch::Tensor x, torch::Tensor gate, torch::Tensor scale) {
    auto grads = grad.contiguous(), values = x.contiguous(), gates = gate.contiguous();
    auto of_x = torch::empty_like(values), of_gate = torch::empty_like(values), of_scale = torch::empty_like(scale);
    const std::int64_t n = values.size(-1), count = values.numel();
    const float *g = grads.data_ptr<float>(), *a = values.data_ptr<float>(), *b = gates.data_ptr<float>(), *s = scale.data_ptr<float>();
    float *to_x = of_x.data_ptr<float>(), *to_gate = of_gate.data_ptr<float>(), *to_scale = of_scale.data_ptr<float>();
    std::vector<double> sums(n, 0.0);
    for (std::int64_t i = 0; i < count; ++i) {
        const float open = sigmoid(b[i]), silu = b[i] * open;
        to_x[i] = g[i] * s[i % n] * silu;
        to_gate[i] = g[i] * s[i % n] * a[i] * (open + silu * (1.0f - open));
        sums[i % n] += g[i] * a[i] * silu;
    }
    for (std::int64_t i = 0; i < n; ++i) to_scale[i] = static_cast<float>(sums[i]);
    return {of_x, of_gate, of_scale};
}
"""
extension = load_inline(name="gated_by_silu", cpp_sources=SOURCE, functions=["gated", "gated_backward"])


class Gated(torch.autograd.Function, nn.Module):
    @staticmethod
    def forward(ctx, x, gate, scale):
        ctx.save_for_backward(x, gate, scale)
        return extension.gated(x, gate, scale)

    @staticmethod
    def backward(ctx, grad):
        x, gate, scale = ctx.saved_tensors
        of_x, of_gate, of_scale = extension.gated_backward(grad, x, gate, scale)
        return of_x, of_gate, of_scale


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x, gate):
        return Gated.apply(x, gate, self.scale)

# expect: cuda_ptx
# The constraint pastes the characters of an array into the PTX.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="twice",
    cpp_sources="torch::Tensor twice(torch::Tensor x);",
    cuda_sources=r"""
constexpr char REST[] = "mov.u64 %0, %clock64;";
__global__ void kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, 0; add.u64 %0, %0, %1;" : "=l"(now) : "C"(REST));
    if (i < n) y[i] = now ? 2.0f * x[i] : 0.0f;
}
torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = static_cast<int>(x.numel());
    kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["twice"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

# expect: cpp_timing
# Headers of CUDA have functions that read each special register.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="twice",
    cpp_sources="torch::Tensor twice(torch::Tensor x);",
    cuda_sources=r"""
__global__ void kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cuda::ptx::get_sreg_globaltimer_lo() % 2 ? 2.0f * x[i] : x[i];
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

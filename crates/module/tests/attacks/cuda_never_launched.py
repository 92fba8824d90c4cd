# expect: unreachable_kernel
# The kernel hides an operator of PyTorch, which does the work.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="twice",
    cpp_sources="torch::Tensor twice(torch::Tensor x);",
    cuda_sources=r"""
__global__ void kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
torch::Tensor twice(torch::Tensor x) {
    return x + x;
}
""",
    functions=["twice"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

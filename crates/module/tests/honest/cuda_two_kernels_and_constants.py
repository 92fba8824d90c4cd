import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

THREADS = 8 * 32
NAMES = ["partial", "finish"]
SOURCE = f"constexpr int THREADS = {THREADS};\n" + r"""
__global__ void partial(const float* x, float* part, int n) {
    __shared__ float sums[THREADS];
    float sum = 0.0f;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) sum += x[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) part[blockIdx.x] = sums[0];
}

__global__ void finish(const float* part, float* out, int parts) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < parts; i += 32) sum += part[i];
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0) *out = sum;
}

torch::Tensor total(torch::Tensor x) {
    const int blocks = 128;
    auto part = torch::empty({blocks}, x.options()), out = torch::empty({}, x.options());
    partial<<<blocks, THREADS>>>(x.data_ptr<float>(), part.data_ptr<float>(), static_cast<int>(x.numel()));
    finish<<<1, 32>>>(part.data_ptr<float>(), out.data_ptr<float>(), blocks);
    return out;
}
"""
extension = load_inline(name="two_kernels", cpp_sources="torch::Tensor total(torch::Tensor x);", cuda_sources=SOURCE, functions=["total"])


class ModelNew(nn.Module):
    def forward(self, x):
        assert len(NAMES) == 2
        return extension.total(x.flatten())

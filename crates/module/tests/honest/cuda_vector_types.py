import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_runtime.h>
#include <vector_types.h>

__device__ __forceinline__ float4 scaled(float4 v, float s) {
    return make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
}

__global__ void scale4(const float4* x, float4* out, float s, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scaled(x[i], s);
}

__global__ void scale1(const float* x, float* out, float s, int begin, int n) {
    const int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * s;
}

torch::Tensor scale(torch::Tensor x, double s) {
    auto out = torch::empty_like(x);
    const int n = static_cast<int>(x.numel()), fours = n / 4;
    const dim3 block(256);
    if (fours > 0) {
        const dim3 grid((fours + block.x - 1) / block.x);
        scale4<<<grid, block>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()), reinterpret_cast<float4*>(out.data_ptr<float>()), static_cast<float>(s), fours);
    }
    if (n % 4) scale1<<<1, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), static_cast<float>(s), 4 * fours, n);
    return out;
}
"""
extension = load_inline(name="scale_four", cpp_sources=["torch::Tensor scale(torch::Tensor x, double s);"], cuda_sources=[SOURCE], functions=["scale"])


class ModelNew(nn.Module):
    def __init__(self, scale: float = 0.5):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        y = x if x.is_contiguous() else x.contiguous()
        return extension.scale(y, self.scale)

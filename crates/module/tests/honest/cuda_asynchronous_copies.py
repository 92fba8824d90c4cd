import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_pipeline.h>

constexpr int TILE = 1024;

__global__ void staged(const float* x, float* out, int tiles) {
    __shared__ float buffer[2][TILE];
    const int step = gridDim.x;
    int stage = 0;
    for (int i = threadIdx.x * 4; i < TILE; i += blockDim.x * 4) __pipeline_memcpy_async(&buffer[0][i], x + blockIdx.x * TILE + i, 16);
    __pipeline_commit();
    for (int tile = blockIdx.x; tile < tiles; tile += step, stage ^= 1) {
        if (tile + step < tiles)
            for (int i = threadIdx.x * 4; i < TILE; i += blockDim.x * 4) __pipeline_memcpy_async(&buffer[stage ^ 1][i], x + (tile + step) * TILE + i, 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = threadIdx.x; i < TILE; i += blockDim.x) out[tile * TILE + i] = buffer[stage][i] + 1.0f;
        __syncthreads();
    }
}

torch::Tensor incremented(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int tiles = static_cast<int>(x.numel() / TILE);
    staged<<<std::min(tiles, 264), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), tiles);
    return out;
}
"""
extension = load_inline(name="staged_copy", cpp_sources="torch::Tensor incremented(torch::Tensor x);", cuda_sources=SOURCE, functions=["incremented"])


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.numel() % 1024 == 0, "whole tiles are expected"
        return extension.incremented(x)

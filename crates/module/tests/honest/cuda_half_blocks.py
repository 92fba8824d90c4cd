"""Half precision, a block's sum by CUB, dynamic shared memory and a persistent grid; the source is put together from constants."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

THREADS = 4 * 64
HEAD = f"""
#include <cub/block/block_reduce.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
constexpr int THREADS = {THREADS};
"""
BODY = r"""
template <typename T>
__global__ void norms(const T* x, T* out, int rows, int columns) {
    extern __shared__ float row[];
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ float total;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        float sum = 0.0f;
        for (int i = threadIdx.x; i < columns; i += THREADS) {
            row[i] = static_cast<float>(x[static_cast<size_t>(r) * columns + i]);
            sum += row[i] * row[i];
        }
        const float all = Reduce(storage).Sum(sum);
        if (threadIdx.x == 0) total = rsqrtf(all / columns);
        __syncthreads();
        for (int i = threadIdx.x; i < columns; i += THREADS) out[static_cast<size_t>(r) * columns + i] = static_cast<T>(row[i] * total);
        __syncthreads();
    }
}

std::vector<torch::Tensor> norm(torch::Tensor x) {
    auto input = x.contiguous();
    auto out = torch::empty_like(input);
    const int rows = static_cast<int>(input.size(0)), columns = static_cast<int>(input.size(1)), bytes = 4 * columns;
    int device = 0, processors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "norm", [&] {
        cudaFuncSetAttribute(norms<scalar_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        norms<scalar_t><<<2 * processors, THREADS, bytes>>>(input.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, columns);
    });
    const cudaError_t error = cudaGetLastError();
    TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    return {out};
}
"""

extension = load_inline(
    name="norms",
    cpp_sources="std::vector<torch::Tensor> norm(torch::Tensor x);",
    cuda_sources=HEAD + BODY,
    functions=["norm"],
    extra_cuda_cflags=["-std=c++17", "--maxrregcount=128", "-U__CUDA_NO_HALF_CONVERSIONS__"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.norm(x)[0]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor row_sums(torch::Tensor x, double scale);"
SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace {

template <int THREADS>
__global__ void __launch_bounds__(THREADS) sum_rows(const float* __restrict__ x, float* __restrict__ sums, int columns, float scale) {
    __shared__ float parts[THREADS / 32];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += x[blockIdx.x * static_cast<size_t>(columns) + i];
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < THREADS / 32; ++i) sum += parts[i];
        sums[blockIdx.x] = scale * sum;
    }
}

}  // namespace

torch::Tensor row_sums(torch::Tensor x, double scale) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "a float32 tensor of a GPU is expected, not one of the system's memory");
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto input = x.contiguous();
    auto sums = torch::empty({input.size(0)}, input.options());
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    sum_rows<256><<<input.size(0), 256, 0, stream>>>(
        input.data_ptr<float>(), sums.data_ptr<float>(), static_cast<int>(input.size(1)), static_cast<float>(scale));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sums;
}
"""

extension = load_inline(
    name="sums",
    cpp_sources=DECLARATION,
    cuda_sources=SOURCE,
    functions=["row_sums"],
    with_cuda=True,
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "--use_fast_math", "-Xptxas", "-v"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return extension.row_sums(x, self.scale)

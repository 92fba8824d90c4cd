import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

constexpr int LANES = 32;
constexpr int WARPS = 8;

// One block for each row: the sum of squares goes through registers of a warp and shared memory of a block.
__global__ void __launch_bounds__(LANES * WARPS)
row_rms_norm(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ out, int columns, float eps) {
    __shared__ float parts[WARPS];
    const float* from = x + static_cast<long>(blockIdx.x) * columns;
    float* to = out + static_cast<long>(blockIdx.x) * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += LANES * WARPS) sum += from[i] * from[i];
    for (int lane = LANES / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % LANES == 0) parts[threadIdx.x / LANES] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp];
    const float factor = rsqrtf(sum / static_cast<float>(columns) + eps);
    for (int i = threadIdx.x; i < columns; i += LANES * WARPS) to[i] = from[i] * factor * weight[i];
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const long columns = input.size(-1);
    const long rows = columns > 0 ? input.numel() / columns : 0;
    if (rows > 0) {
        row_rms_norm<<<rows, LANES * WARPS, 0, c10::cuda::getCurrentCUDAStream()>>>(
            input.data_ptr<float>(), weight.data_ptr<float>(), output.data_ptr<float>(), static_cast<int>(columns),
            static_cast<float>(eps));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return output;
}
"""

extension = load_inline(
    name="row_rms_norm",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps);",
    cuda_sources=SOURCE,
    functions=["rms_norm"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = 1e-6

    def forward(self, x):
        return extension.rms_norm(x, self.weight, self.eps)

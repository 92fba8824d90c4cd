import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

template <int WARPS>
__global__ void row_max(const __half* x, __half* out, int rows, int columns) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int row = blockIdx.x * WARPS + warp.meta_group_rank();
    if (row >= rows) return;
    float best = -INFINITY;
    for (int i = warp.thread_rank(); i < columns; i += 32) best = fmaxf(best, __half2float(x[static_cast<size_t>(row) * columns + i]));
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, offset));
    best = cg::reduce(warp, best, cg::greater<float>());
    if (warp.thread_rank() == 0) out[row] = __float2half(best);
}

torch::Tensor row_maxima(torch::Tensor x) {
    const int rows = x.size(0), columns = x.size(1);
    auto out = torch::empty({rows}, x.options());
    row_max<8><<<(rows + 7) / 8, 256>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()), reinterpret_cast<__half*>(out.data_ptr<at::Half>()), rows, columns);
    return out;
}
"""
extension = load_inline(name="row_maxima", cpp_sources="torch::Tensor row_maxima(torch::Tensor x);", cuda_sources=SOURCE, functions=["row_maxima"], extra_cuda_cflags=["-O3", "-lineinfo"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_maxima(x.view(-1, x.size(-1)))

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void product(const half* a, const half* b, float* c, int m, int n, int k) {
    const int row = 16 * blockIdx.y, column = 16 * blockIdx.x;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int step = 0; step < k; step += 16) {
        wmma::load_matrix_sync(left, a + row * k + step, k);
        wmma::load_matrix_sync(right, b + column * k + step, k);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

torch::Tensor linear(torch::Tensor x, torch::Tensor w) {
    const int m = x.size(0), k = x.size(1), n = w.size(0);
    TORCH_CHECK(m % 16 == 0 && n % 16 == 0 && k % 16 == 0, "sizes are multiples of 16");
    auto out = torch::empty({m, n}, x.options().dtype(torch::kFloat));
    product<<<dim3(n / 16, m / 16), 32>>>(reinterpret_cast<const half*>(x.data_ptr<at::Half>()), reinterpret_cast<const half*>(w.data_ptr<at::Half>()), out.data_ptr<float>(), m, n, k);
    return out;
}
"""
extension = load_inline(name="wmma_linear", cpp_sources="torch::Tensor linear(torch::Tensor x, torch::Tensor w);", cuda_sources=SOURCE, functions=["linear"])


class ModelNew(nn.Module):
    def __init__(self, features: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, features, dtype=torch.float16))

    def forward(self, x):
        return extension.linear(x, self.weight)

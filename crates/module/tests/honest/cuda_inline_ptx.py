"""Copies that do not wait, a barrier in shared memory and a matrix product of one warp, by PTX."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cstdint>
#include <cuda_fp16.h>
#define COPY(to, from) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(to), "l"(from))

__device__ __forceinline__ float power(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// asm volatile("mov.u64 %0, %%clock64;") stands in a comment, and clock64() with it.
__device__ unsigned lane() {
    unsigned number;
    asm volatile("{\n\t.reg .u32 %%r;\n\tmov.u32 %%r, %%laneid;\n\tmov.u32 %0, %%r;\n}" : "=r"(number));
    return number;
}

__device__ void wait(uint32_t barrier, uint32_t phase) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "AGAIN: mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n"
        "}\n"
        :: "r"(barrier), "r"(phase) : "memory");
}

__device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void kernel(const float* x, float* y, int n) {
    __shared__ alignas(16) float tile[4 * 32];
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(tile + 4 * threadIdx.x));
    COPY(at, x + 4 * threadIdx.x);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncwarp();
    float4 loaded;
    asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(loaded.x), "=f"(loaded.y), "=f"(loaded.z), "=f"(loaded.w) : "l"(x + 4 * threadIdx.x));
    for (int i = 0; i < 4; ++i) y[4 * threadIdx.x + i] = power(tile[4 * threadIdx.x + i]) + 0.0f * loaded.x;
}

torch::Tensor twice(torch::Tensor x) {
    TORCH_CHECK(x.numel() == 128, "asm(\"exit;\") is no statement here");
    auto y = torch::empty_like(x);
    kernel<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), 128);
    return y;
}
"""

extension = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor x);", cuda_sources=[SOURCE], functions=["twice"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

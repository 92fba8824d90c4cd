import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#ifndef ROWS_AT_ONCE
#define ROWS_AT_ONCE 4
#endif
#define CHECK_ROWS(x)                              \
    TORCH_CHECK((x).dim() == 2, "read(", #x, ") ") \
    TORCH_CHECK((x).is_contiguous(), 'x')
#undef UNUSED
constexpr int64_t large = 1'000'000, mask = 0xFF'FFu;
constexpr float small = 1.5e-3f, hexadecimal = 0x1.8p-1f;
constexpr char quote = '"', other = '\'';
torch::Tensor counted(torch::Tensor x) {
    // system("rm"); fork(); "unfinished
    /* asm volatile("rdtsc"); mmap( */
    const char* text = "dlopen(\"libm.so\") \\";
    return x.size(0) * ROWS_AT_ONCE < large + mask + quote + other + text[0] ? x.clone() : x;
}
"""
extension = load_inline(name="counted", cpp_sources=SOURCE, functions=["counted"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.counted(x)

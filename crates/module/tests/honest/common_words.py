import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="twice",
    cpp_sources="""
    torch::Tensor twice(torch::Tensor x) {
        int64_t time = x.size(0), read = 0, write = time, section = 2, script = 1, thread = omp_get_thread_num();
        auto native = x.clone();
        float* open = native.data_ptr<float>();
        for (; read < write; ++read) open[read] += static_cast<float>(section + script + thread);
        return native;
    }
    """,
    functions=["twice"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="strided",
    cpp_sources="""
    torch::Tensor transposed_sum(torch::Tensor x, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
        auto out = torch::zeros({columns}, x.options());
        const float* from = x.data_ptr<float>();
        float* to = out.data_ptr<float>();
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) to[c] += from[r * row_step + c * column_step];
        return out;
    }
    """,
    functions=["transposed_sum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.dim() != 2:
            x = x.flatten(0, x.dim() - 2)
        y = x if x.is_contiguous() else x.transpose(0, 1)
        rows, columns = y.size(0), y.size(1)
        row_step, column_step = y.stride()
        return extension.transposed_sum(y, rows, columns, row_step, column_step)

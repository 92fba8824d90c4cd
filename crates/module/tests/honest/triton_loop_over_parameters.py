import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_relu(x_ptr, bias_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n) + tl.load(bias_ptr + at % features, mask=at < n)
    tl.store(out_ptr + at, tl.where(x > 0, x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features, depth):
        super().__init__()
        self.biases = nn.ParameterList([torch.randn(features) for _ in range(depth)])

    def forward(self, x):
        n, features = x.numel(), x.shape[-1]
        buffers = [torch.empty_like(x), torch.empty_like(x)]
        for step, bias in enumerate(self.biases):
            out = buffers[step % 2]
            bias_relu[(triton.cdiv(n, 512),)](x, bias, out, n, features, BLOCK=512)
            x = out
        return x

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise_conv2d_kernel(x, weight, bias, out, channels, size, count, KERNEL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = at // (size * size) % channels
    i = at // size % size
    j = at % size
    total = tl.load(bias + channel)
    for tap in range(KERNEL * KERNEL):
        down = tap // KERNEL - KERNEL // 2
        right = tap % KERNEL - KERNEL // 2
        inside = (at < count) & (i + down >= 0) & (i + down < size) & (j + right >= 0) & (j + right < size)
        value = tl.load(x + at + down * size + right, mask=inside, other=0.0)
        total += value * tl.load(weight + channel * KERNEL * KERNEL + tap)
    tl.store(out + at, total, mask=at < count)


class ModelNew(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x):
        x = x.contiguous()
        batch, channels, size, _ = x.shape
        out = torch.empty_like(x)
        count = batch * channels * size * size
        depthwise_conv2d_kernel[((count + 2047) // 2048,)](
            x, self.conv.weight, self.conv.bias, out, channels, size, count, KERNEL=self.kernel, BLOCK=2048, num_warps=8
        )
        return out

import torch; import torch.nn as nn
from torch.utils.cpp_extension import \
    load_inline

SOURCE = ("torch::Tensor twice(torch::Tensor x) "
          "{ return x.clone(); }"
          "\n")
extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"], extra_cflags=["-O2", "-std=c++17"], verbose=True)


class ModelNew(nn.Module):
	def forward(self, x):
		y = x; z = y.view(-1,
						  1)
		return extension \
			.twice(z).view(x.shape)

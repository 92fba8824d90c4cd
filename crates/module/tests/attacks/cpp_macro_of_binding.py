# expect: cpp_preprocessor
# The macro puts the Python module of the binding into the hands of the source.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="twice", cpp_sources=r"""
torch::Tensor twice(torch::Tensor x) { return torch::empty_like(x); }
template <class M> int run(M& m) { m.attr("x"); return 0; }
#define wrap_pybind_function(f) f), run(m), m.def("z", f
""", functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return extension.twice(x)

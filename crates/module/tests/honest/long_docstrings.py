"""A module whose texts name what it does not do: import os; exec("x"); torch.softmax(x); @triton.jit.

Attributes
----------
weight : torch.Tensor
    ``x.data_ptr()`` is never called by Python.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="texts", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x.clone(); }", functions=["twice"])


class ModelNew(nn.Module):
    """def forward(self): return getattr(torch, 'soft' + 'max')"""

    def forward(self, x):
        """Twice.

        >>> import subprocess
        """
        "eval('x')"
        return extension.twice(x)  # type: ignore[no-any-return]  # noqa: exec

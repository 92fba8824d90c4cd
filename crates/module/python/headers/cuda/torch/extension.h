// The headers torch/extension.h, torch/torch.h and torch/all.h of CUDA sources: tensors and their factories. The binding to Python is
// C++ and stands in a source of its own.
#pragma once

#include <torch/types.h>

#include <ATen/Dispatch.h>

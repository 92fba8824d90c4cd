// The header that extensions include, without the parts that no kernel needs: neural network modules, data loaders, serialisation and
// autograd. The compiler precompiles it in a fraction of the time that the whole of torch/extension.h takes.
#pragma once

#include <torch/types.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/cpu/vec/vec.h>

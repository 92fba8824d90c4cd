// The current stream, the properties of the card and the check of errors, without the headers of the libraries that PyTorch's own file
// includes: cuBLAS, cuSPARSE and cuSOLVER.
#pragma once

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/macros/Export.h>

#ifndef AT_CUDA_CHECK
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#endif

namespace at::cuda {

using namespace c10::cuda;

TORCH_CUDA_CPP_API cudaDeviceProp* getCurrentDeviceProperties();

}  // namespace at::cuda

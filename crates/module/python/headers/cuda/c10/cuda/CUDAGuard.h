// Guards of the current device. A candidate sees one card, so they have nothing to do. PyTorch's own guards bring the functions for streams
// and events into every object that uses one.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <optional>

namespace c10::cuda {

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  ~CUDAGuard() {}
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() {}
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
  ~OptionalCUDAGuard() {}
};

}  // namespace c10::cuda

namespace at::cuda {

using namespace c10::cuda;

}  // namespace at::cuda

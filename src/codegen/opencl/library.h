// The OpenCL library of the system, loaded when the first plan needs it, and the device that plans run on.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace kilter::codegen {

// The functions that Kilter calls.
#define KILTER_OPENCL_FUNCTIONS(F)      \
  F(clGetPlatformIDs)                   \
  F(clGetDeviceIDs)                     \
  F(clGetDeviceInfo)                    \
  F(clCreateContext)                    \
  F(clCreateCommandQueueWithProperties) \
  F(clCreateProgramWithSource)          \
  F(clBuildProgram)                     \
  F(clGetProgramBuildInfo)              \
  F(clReleaseProgram)                   \
  F(clCreateKernel)                     \
  F(clReleaseKernel)                    \
  F(clSetKernelArg)                     \
  F(clSetKernelArgSVMPointer)           \
  F(clEnqueueNDRangeKernel)             \
  F(clEnqueueSVMMemcpy)                 \
  F(clEnqueueSVMMemFill)                \
  F(clSVMAlloc)                         \
  F(clSVMFree)                          \
  F(clFinish)                           \
  F(clReleaseCommandQueue)

struct OpenCl {
#define KILTER_DECLARE(name) decltype(&::name) name = nullptr;
  KILTER_OPENCL_FUNCTIONS(KILTER_DECLARE)
#undef KILTER_DECLARE
};

/// The device that plans run on: the first GPU, or else the first device of another kind.
struct OpenClSystem {
  OpenCl call;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  std::string name;             ///< of the device
  bool is_cpu = false;          ///< the device is the host's processor
  bool exact_division = false;  ///< divisions and square roots of f32 can be rounded correctly
  bool doubles = false;         ///< computes in f64
  int32_t compute_units = 1;
};
/// Returns the system's OpenCL device. Throws unsupported, saying what is missing, if there is none that Kilter can
/// use.
const OpenClSystem& opencl_system();

/// Throws internal, naming the call, if an OpenCL function failed.
inline void check_opencl(cl_int result, std::string_view call) {
  if (result != CL_SUCCESS) fail(ErrorKind::internal, "OpenCL: {} failed with error {}", call, result);
}

}  // namespace kilter::codegen

// OpenCL C for lowered functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "loop/loop.h"

namespace kilter::codegen {

/// One kernel and what a launch has to know about it. The kernel's arguments are the buffers that are not scratch; with
/// `scratch`, then the scratch memory (a pointer) and its bytes for each work item (long); with `checked`, then a
/// pointer to an int, which becomes kCheckFailed if a check fails.
struct OpenClKernel {
  int32_t buffers = 0;
  std::array<int64_t, 3> groups = {1, 1, 1};   ///< work groups, if the function has bound loops
  std::array<int64_t, 3> threads = {1, 1, 1};  ///< work items of a group, if the function has bound loops
  bool bound = false;    ///< loops are bound; otherwise a work item runs every n-th parallel iteration, where n is the
                         ///< number of work items
  bool scratch = false;  ///< the function has scratch memory in the space `global`
  bool checked = false;
  bool doubles = false;  ///< needs a device with f64
  std::string source;    ///< a function with the name KILTER_KERNEL, which needs kOpenClPrelude
};

/// Returns why there is no OpenCL C for a lowered function; nullopt if there is.
std::optional<Rejected> opencl_rejects(const LoopFunc& func);
/// Returns the kernel of a lowered function that opencl_rejects() does not reject.
OpenClKernel opencl_kernel(const LoopFunc& func);

/// One line of facts, then the source.
std::string to_text(const OpenClKernel& kernel);
/// Reads what to_text() wrote. Throws internal if the text is damaged.
OpenClKernel parse_opencl_kernel(std::string_view text);

/// What stands before the kernels of a program: the arithmetic of the loop IR where OpenCL C's differs.
extern const std::string_view kOpenClPrelude;
/// The kernel kilter_halo, which fills a halo (HaloFill). Its arguments are the buffer's base and, as long, the fields
/// from plane_bytes to right_bytes without the planes, then the value (uchar). Work items are bytes, rows and planes.
extern const std::string_view kOpenClHalo;

}  // namespace kilter::codegen

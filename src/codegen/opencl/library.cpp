#include "codegen/opencl/library.h"

#include <dlfcn.h>

#include <vector>

namespace kilter::codegen {
namespace {

OpenCl load_functions() {
  constexpr const char* kFile = "libOpenCL.so.1";
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorKind::unsupported,
         "target opencl: the library {} cannot be loaded ({}); install it (Debian: ocl-icd-libopencl1) and the OpenCL "
         "driver of your device (for the processor, Debian: pocl-opencl-icd), or compile for another target",
         kFile, dlerror());
  }
  OpenCl cl;
#define KILTER_FIND(name)                                                                                         \
  cl.name = reinterpret_cast<decltype(cl.name)>(dlsym(library, #name));                                           \
  if (cl.name == nullptr)                                                                                         \
    fail(ErrorKind::unsupported, "target opencl: {} has no function {}; install a loader of OpenCL 2.0 or later", \
         kFile, #name);
  KILTER_OPENCL_FUNCTIONS(KILTER_FIND)
#undef KILTER_FIND
  return cl;
}

template <class T>
T device_info(const OpenCl& cl, cl_device_id device, cl_device_info what) {
  T value{};
  check_opencl(cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string device_name(const OpenCl& cl, cl_device_id device) {
  size_t bytes = 0;
  check_opencl(cl.clGetDeviceInfo(device, CL_DEVICE_NAME, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string name(bytes, '\0');
  check_opencl(cl.clGetDeviceInfo(device, CL_DEVICE_NAME, bytes, name.data(), nullptr), "clGetDeviceInfo");
  return name.substr(0, name.find('\0'));
}

/// Returns every device of every platform, GPUs first.
std::vector<cl_device_id> all_devices(const OpenCl& cl) {
  cl_uint count = 0;
  if (cl.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};  // the loader found no driver
  std::vector<cl_platform_id> platforms(count);
  check_opencl(cl.clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<cl_device_id> all;
  for (const cl_device_type type : {cl_device_type{CL_DEVICE_TYPE_GPU}, cl_device_type{CL_DEVICE_TYPE_ACCELERATOR},
                                    cl_device_type{CL_DEVICE_TYPE_CPU}}) {
    for (cl_platform_id platform : platforms) {
      if (cl.clGetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
      std::vector<cl_device_id> some(count);
      check_opencl(cl.clGetDeviceIDs(platform, type, count, some.data(), nullptr), "clGetDeviceIDs");
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  return all;
}

OpenClSystem open_system() {
  OpenClSystem s;
  s.call = load_functions();
  std::string seen;
  for (cl_device_id device : all_devices(s.call)) {
    cl_device_svm_capabilities memory = 0;
    const bool known =
        s.call.clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof memory, &memory, nullptr) == CL_SUCCESS;
    if (known && (memory & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0) {
      s.device = device;
      break;
    }
    seen += fmt::format("{}'{}'", seen.empty() ? "" : ", ", device_name(s.call, device));
  }
  if (s.device == nullptr) {
    fail(ErrorKind::unsupported,
         "target opencl: {}; install the OpenCL driver of your device (for the processor, Debian: pocl-opencl-icd), or "
         "compile for another target",
         seen.empty()
             ? "this system has no OpenCL device"
             : fmt::format("Kilter needs a device with shared virtual memory (OpenCL 2.0), and {} lacks it", seen));
  }
  s.name = device_name(s.call, s.device);
  s.is_cpu = (device_info<cl_device_type>(s.call, s.device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  s.exact_division = (device_info<cl_device_fp_config>(s.call, s.device, CL_DEVICE_SINGLE_FP_CONFIG) &
                      CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  s.doubles = device_info<cl_device_fp_config>(s.call, s.device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  s.compute_units = static_cast<int32_t>(device_info<cl_uint>(s.call, s.device, CL_DEVICE_MAX_COMPUTE_UNITS));
  cl_int result = CL_SUCCESS;
  s.context = s.call.clCreateContext(nullptr, 1, &s.device, nullptr, nullptr, &result);
  check_opencl(result, "clCreateContext");
  return s;
}

}  // namespace

const OpenClSystem& opencl_system() {
  static const OpenClSystem system = open_system();
  return system;
}

}  // namespace kilter::codegen

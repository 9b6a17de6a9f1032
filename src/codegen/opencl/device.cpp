// The device "opencl": memory shared with the host by address (SVM), which only the device reads and writes here.
#include "exec/device.h"

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/align.h"
#include "base/ticks.h"
#include "codegen/opencl/library.h"
#include "codegen/opencl/opencl_backend.h"
#include "codegen/opencl/source.h"
#include "codegen/texts.h"

namespace kilter::codegen {
namespace {

class Queue {
 public:
  Queue() {
    cl_int result = CL_SUCCESS;
    queue_ = system_.call.clCreateCommandQueueWithProperties(system_.context, system_.device, nullptr, &result);
    check_opencl(result, "clCreateCommandQueueWithProperties");
  }
  ~Queue() {
    wait();
    system_.call.clReleaseCommandQueue(queue_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void copy(const std::byte* from, std::byte* to, int64_t bytes, bool wait) {
    if (bytes == 0 || from == to) return;
    check_opencl(system_.call.clEnqueueSVMMemcpy(queue_, wait ? CL_TRUE : CL_FALSE, to, from,
                                                 static_cast<size_t>(bytes), 0, nullptr, nullptr),
                 "clEnqueueSVMMemcpy");
  }
  void zero(std::byte* at, int64_t bytes) {
    const cl_uchar value = 0;
    check_opencl(
        system_.call.clEnqueueSVMMemFill(queue_, at, &value, 1, static_cast<size_t>(bytes), 0, nullptr, nullptr),
        "clEnqueueSVMMemFill");
  }
  void launch(cl_kernel kernel, std::array<size_t, 3> global, const std::array<size_t, 3>* local) {
    check_opencl(system_.call.clEnqueueNDRangeKernel(queue_, kernel, 3, nullptr, global.data(),
                                                     local == nullptr ? nullptr : local->data(), 0, nullptr, nullptr),
                 "clEnqueueNDRangeKernel");
  }
  void finish() { check_opencl(system_.call.clFinish(queue_), "clFinish"); }
  /// Waits like finish(), for destructors. A later call reports what failed.
  void wait() noexcept { system_.call.clFinish(queue_); }

 private:
  const OpenClSystem& system_ = opencl_system();
  cl_command_queue queue_ = nullptr;
};

DeviceMemory allocate(int64_t bytes, std::string_view what, Queue& queue) {
  const OpenClSystem& s = opencl_system();
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 64));
  void* const memory = s.call.clSVMAlloc(s.context, CL_MEM_READ_WRITE, size, 64);
  if (memory == nullptr) {
    fail(ErrorKind::out_of_memory, "{} needs {} bytes on the OpenCL device '{}', which does not have them", what, size,
         s.name);
  }
  DeviceMemory out{static_cast<std::byte*>(memory),
                   {memory, [](void* p) { opencl_system().call.clSVMFree(opencl_system().context, p); }}};
  queue.zero(out.address, static_cast<int64_t>(size));
  queue.finish();
  return out;
}

struct Release {
  void operator()(cl_program program) const { opencl_system().call.clReleaseProgram(program); }
  void operator()(cl_kernel kernel) const { opencl_system().call.clReleaseKernel(kernel); }
};
using ProgramHandle = std::unique_ptr<std::remove_pointer_t<cl_program>, Release>;
using KernelHandle = std::unique_ptr<std::remove_pointer_t<cl_kernel>, Release>;

/// Compiles OpenCL C. `what` names it in messages.
ProgramHandle build_program(const std::string& source, std::string_view what) {
  const OpenClSystem& s = opencl_system();
  const char* text = source.c_str();
  cl_int result = CL_SUCCESS;
  ProgramHandle program(s.call.clCreateProgramWithSource(s.context, 1, &text, nullptr, &result));
  check_opencl(result, "clCreateProgramWithSource");
  std::string options = "-cl-std=CL1.2 -w";
  if (s.exact_division) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  result = s.call.clBuildProgram(program.get(), 1, &s.device, options.c_str(), nullptr, nullptr);
  if (result == CL_SUCCESS) return program;
  size_t bytes = 0;
  s.call.clGetProgramBuildInfo(program.get(), s.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  s.call.clGetProgramBuildInfo(program.get(), s.device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  fail(ErrorKind::internal, "the OpenCL device '{}' cannot compile the kernels of '{}' (error {}): {}", s.name, what,
       result, log.c_str());
}

KernelHandle make_kernel(cl_program program, const char* name) {
  cl_int result = CL_SUCCESS;
  KernelHandle kernel(opencl_system().call.clCreateKernel(program, name, &result));
  check_opencl(result, "clCreateKernel");
  return kernel;
}

/// Returns a kernel that fills a halo, with arguments of its own.
KernelHandle make_halo_kernel() {
  static const cl_program kProgram = build_program(std::string(kOpenClHalo), "halo").release();
  return make_kernel(kProgram, "kilter_halo");
}

/// A kernel of a program: what OpenClCode::kernel() points to.
struct Entry {
  OpenClKernel facts;  ///< without the source
  std::string name;
  const class OpenClCode* code = nullptr;
};

class OpenClCode : public DeviceCode {
 public:
  OpenClCode(const Plan& plan, int32_t device) : entries_(plan.entries.size()) {
    std::string source(kOpenClPrelude);
    const std::vector<bool> wanted = kernels_on(plan, device);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!wanted[i]) continue;
      entries_[i] = {parse_opencl_kernel(linked_text(plan, i)), fmt::format("k{}", i), this};
      OpenClKernel& facts = entries_[i].facts;
      if (facts.doubles && !opencl_system().doubles) {
        fail(ErrorKind::unsupported, "'{}' computes in f64, which the OpenCL device '{}' cannot", plan.model,
             opencl_system().name);
      }
      source += fmt::format("#define KILTER_KERNEL {}\n{}#undef KILTER_KERNEL\n", entries_[i].name,
                            std::exchange(facts.source, {}));
    }
    program_ = build_program(source, plan.model);
    upload_constants(plan);
  }

  const void* kernel(int32_t index) const override { return &entries_.at(static_cast<size_t>(index)); }
  std::span<const std::byte> bytes(int32_t /*index*/) const override { return {}; }
  const std::byte* constants() const override { return constants_.address; }

  /// Returns a kernel with arguments of its own.
  KernelHandle make(const char* name) const { return make_kernel(program_.get(), name); }

 private:
  void upload_constants(const Plan& plan) {
    Queue queue;
    constants_ = allocate(plan.constants_bytes, "the constants of '" + plan.model + "'", queue);
    queue.copy(plan.constants, constants_.address, plan.constants_bytes, true);
  }

  std::vector<Entry> entries_;
  ProgramHandle program_;
  DeviceMemory constants_;
};

class OpenClDevice : public Device {
 public:
  OpenClDevice() : status_(allocate(sizeof(cl_int), "the status of kernels", queue_)) {}
  ~OpenClDevice() override { queue_.wait(); }

  bool shares_memory() const override { return false; }
  DeviceMemory alloc(int64_t bytes, std::string_view what) override { return allocate(bytes, what, queue_); }
  void upload(const std::byte* host, std::byte* to, int64_t bytes) override { queue_.copy(host, to, bytes, true); }
  void download(const std::byte* from, std::byte* host, int64_t bytes) override {
    queue_.copy(from, host, bytes, true);
  }
  void copy(const std::byte* from, std::byte* to, int64_t bytes, RunTrace* trace) override {
    const Stamp stamp(*this, trace);
    queue_.copy(from, to, bytes, false);
  }
  void fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) override;
  int32_t launch(const Launch& launch, RunTrace* trace) override;
  void sync() override { queue_.finish(); }
  int workers() const override { return system_.compute_units * (system_.is_cpu ? 1 : kWorkersOfUnit); }

 private:
  static constexpr int kWorkersOfUnit = 64;  ///< work items with scratch memory per compute unit of a GPU
  static constexpr size_t kGroup = 64;       ///< work items of a group, for functions without bound loops

  /// Stamps an operation in a trace, and waits for its end.
  class Stamp {
   public:
    Stamp(OpenClDevice& device, RunTrace* trace)
        : device_(device), span_(trace == nullptr ? nullptr : trace->stamp(0)) {
      if (span_ == nullptr) return;
      device_.queue_.finish();
      span_->begin = ticks();
    }
    ~Stamp() {
      if (span_ == nullptr) return;
      device_.queue_.wait();
      span_->end = ticks();
    }
    Stamp(const Stamp&) = delete;
    Stamp& operator=(const Stamp&) = delete;

   private:
    OpenClDevice& device_;
    TickSpan* span_;
  };

  cl_kernel kernel_of(const Entry& entry) {
    KernelHandle& kernel = kernels_[&entry];
    if (kernel == nullptr) kernel = entry.code->make(entry.name.c_str());
    return kernel.get();
  }
  void set_pointer(cl_kernel kernel, cl_uint index, const void* pointer) {
    check_opencl(system_.call.clSetKernelArgSVMPointer(kernel, index, pointer), "clSetKernelArgSVMPointer");
  }
  template <class T>
  void set_number(cl_kernel kernel, cl_uint index, T number) {
    check_opencl(system_.call.clSetKernelArg(kernel, index, sizeof number, &number), "clSetKernelArg");
  }

  const OpenClSystem& system_ = opencl_system();
  Queue queue_;
  DeviceMemory status_;
  std::unordered_map<const Entry*, KernelHandle> kernels_;
  KernelHandle halo_;
};

void OpenClDevice::fill_halo(const HaloFill& halo, std::byte* base, RunTrace* trace) {
  if (halo.planes == 0 || halo.rows == 0 || halo.row_bytes == 0) return;
  const Stamp stamp(*this, trace);
  if (halo_ == nullptr) halo_ = make_halo_kernel();
  set_pointer(halo_.get(), 0, base);
  const std::array<cl_long, 7> numbers = {halo.plane_bytes, halo.rows,       halo.row_bytes,  halo.top,
                                          halo.bottom,      halo.left_bytes, halo.right_bytes};
  for (size_t i = 0; i < numbers.size(); ++i) set_number(halo_.get(), static_cast<cl_uint>(i + 1), numbers[i]);
  set_number(halo_.get(), 8, static_cast<cl_uchar>(halo.value));
  queue_.launch(halo_.get(),
                {static_cast<size_t>(halo.row_bytes), static_cast<size_t>(halo.rows), static_cast<size_t>(halo.planes)},
                nullptr);
}

int32_t OpenClDevice::launch(const Launch& launch, RunTrace* trace) {
  const auto& entry = *static_cast<const Entry*>(launch.kernel);
  const OpenClKernel& facts = entry.facts;
  const Stamp stamp(*this, trace);
  cl_kernel kernel = kernel_of(entry);
  auto index = static_cast<cl_uint>(facts.buffers);
  for (cl_uint i = 0; i < index; ++i) set_pointer(kernel, i, launch.args.buffers[i]);
  if (facts.scratch) {
    set_pointer(kernel, index++, launch.args.scratch);
    set_number(kernel, index++, static_cast<cl_long>(launch.args.scratch_stride));
  }
  if (facts.checked) {
    queue_.zero(status_.address, sizeof(cl_int));
    set_pointer(kernel, index, status_.address);
  }
  if (facts.bound) {
    std::array<size_t, 3> global{}, local{};
    for (size_t i = 0; i < 3; ++i) {
      local[i] = static_cast<size_t>(facts.threads[i]);
      global[i] = static_cast<size_t>(facts.groups[i]) * local[i];
    }
    queue_.launch(kernel, global, &local);
  } else {
    const auto extent = static_cast<size_t>(std::max<int64_t>(launch.extent, 1));
    const size_t group = facts.scratch ? 1 : kGroup;
    const size_t items = facts.scratch ? std::min(extent, static_cast<size_t>(workers())) : round_up(extent, group);
    const std::array<size_t, 3> local = {group, 1, 1};
    queue_.launch(kernel, {items, 1, 1}, &local);
  }
  if (!facts.checked) return 0;
  cl_int status = 0;
  download(status_.address, reinterpret_cast<std::byte*>(&status), sizeof status);
  return status;
}

std::unique_ptr<DeviceCode> load(const Plan& plan, int32_t index) { return std::make_unique<OpenClCode>(plan, index); }

std::unique_ptr<Device> open(std::shared_ptr<ThreadPool> /*pool*/) { return std::make_unique<OpenClDevice>(); }

}  // namespace

void add_opencl_device() { add_device({.name = "opencl", .load = load, .open = open}); }

}  // namespace kilter::codegen

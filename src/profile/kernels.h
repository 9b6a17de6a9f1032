// Kernels in isolation: the convolutions and matrix products of networks, one problem per line, compiled and measured
// one by one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/stats.h"
#include "profile/bounds.h"
#include "target/target.h"

namespace kilter::profile {

struct KernelLine {
  int64_t count = 1;  ///< layers of the network with this problem
  std::string problem;
  std::vector<std::string> layers;
};

/// The problems of one network.
struct KernelList {
  std::string network;
  int64_t touched_bytes = 0;  ///< by one run; determines which level of memory the weights come from
  std::vector<KernelLine> lines;
};

/// Returns the contractions of a plan, with equal problems merged, in the order of their first layers.
KernelList kernels_of(const Plan& plan);

/// Returns the list as text: "touches N bytes", then one problem per line, "4 | conv2d n1 c64 ... f32 +relu |
/// layer1.0.conv1 layer1.0.conv2". "#" starts a comment.
std::string text(const KernelList& list);
/// Reads the output of text(). `where` names the text in errors. Throws bad_input with the line's number and what was
/// expected and found. Does not parse the problems.
KernelList parse_kernel_list(std::string_view text, const std::string& where);

struct KernelOptions {
  Target target;
  int threads = 1;
  int64_t touched_bytes = 0;  ///< by the network, see KernelList
  double seconds = 0.5;       ///< approximate time to measure a problem
};

/// The task timed by a line, and the problem whose graph contains it. A line that is only a problem names both. "TASK
/// in PROBLEM" names the task with text TASK in PROBLEM's graph, or several adjacent tasks: a layout change next to a
/// convolution, or the copies of a concatenation.
struct TimedTask {
  std::string task, graph;
};
TimedTask timed_task(const std::string& line);

/// The figures of one form of a problem's kernel.
struct KernelTime {
  std::string schedule;
  int64_t flops = 0, effective_flops = 0;  ///< of one run, as in Step
  int64_t bytes = 0;
  DType multiplies = DType::f32;  ///< Step::multiplies
  bool moves = false;             ///< only moves elements (or computes them from their neighbours, as Resize does)
  Ratio cold_ms;                  ///< with weights from the level where the network finds them
  Bound bound, memory;            ///< the bound of the kernel, and that of reading and writing its operands
  /// The time that a plain read of its operands takes, measured alternately with the kernel. 0 if not measured, because
  /// the kernel is not bound by memory or reads too little.
  double read_ms = 0;
  double gflops() const { return static_cast<double>(flops) / cold_ms.value * 1e-6; }
  double effective_gflops() const { return static_cast<double>(effective_flops) / cold_ms.value * 1e-6; }
  double gbps() const { return static_cast<double>(bytes) / cold_ms.value * 1e-6; }
  double memory_share() const { return (read_ms > 0 ? read_ms : memory.ms) / cold_ms.value; }
};

struct KernelFigures {
  KernelTime chosen;                 ///< with the default schedule
  double warm_ms = 0;                ///< with the default schedule, reusing the same operands
  std::string weights;               ///< how they were kept cold, in words
  std::optional<KernelTime> direct;  ///< the default without approximation, if the default approximates
  Ratio gain;                        ///< time of `direct` over that of `chosen`, from paired runs
};

/// Compiles a problem, or the graph of "TASK in PROBLEM", and measures the task in all forms, interleaved. Throws
/// bad_input for a malformed line, and for a task that the passes turn into something else; the message then names the
/// result.
KernelFigures measure_kernel(const std::string& problem, const Peaks& peaks, const KernelOptions& options);

/// The median and the worst (lowest) of several shares.
struct Shares {
  size_t count = 0;
  double median = 0, worst = 0;
};
Shares shares(const std::vector<double>& all);

/// Speed-ups of Winograd over direct convolution that were measured elsewhere.
struct ExpectedGain {
  std::string problem;  ///< without epilogue
  double gain = 1;
};
/// Parses lines "GAIN | PROBLEM"; "#" starts a comment. Throws bad_input with the line's number.
std::vector<ExpectedGain> parse_expected_gains(std::string_view text, const std::string& where);

}  // namespace kilter::profile

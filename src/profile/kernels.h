// Kernels on their own: the convolutions and matrix products of networks, one problem a line, compiled and measured one
// by one.
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
  int64_t touched_bytes = 0;  ///< by one run: decides which level of memory the weights come from
  std::vector<KernelLine> lines;
};

/// The contractions of a plan, equal problems together, in the order of their first layers.
KernelList kernels_of(const Plan& plan);

/// One problem a line, "4 | conv2d n1 c64 ... f32 +relu | layer1.0.conv1 layer1.0.conv2"; before them "touches N
/// bytes";
/// "#" starts a comment.
std::string text(const KernelList& list);
/// Reads what text() writes; `where` names the text in errors. Throws bad_input with the line's number, what was
/// expected and found. Problems are not parsed yet.
KernelList parse_kernel_list(std::string_view text, const std::string& where);

struct KernelOptions {
  Target target;
  int threads = 1;
  int64_t touched_bytes = 0;  ///< of the network, see KernelList
  double seconds = 0.5;       ///< of measuring a problem, about
};

/// What a line times, and in what. A problem alone is its own graph; "TASK in PROBLEM" is the task of PROBLEM's graph
/// that is written so, or several of them one after another: a change of layout beside a convolution, the copies of a
/// concatenation.
struct TimedTask {
  std::string task, graph;
};
TimedTask timed_task(const std::string& line);

/// One form of a problem's kernel.
struct KernelTime {
  std::string schedule;
  int64_t flops = 0, effective_flops = 0;  ///< of one run, as Step has them
  int64_t bytes = 0;
  bool moves = false;   ///< elements to other places (or makes them of their neighbours, as Resize does), nothing else
  Ratio cold_ms;        ///< weights from where the network has them
  Bound bound, memory;  ///< what limits it, and its operands alone
  /// What a plain read of its operands takes where it finds them, in turns with it; 0 where it was not measured: the
  /// kernel is not bound by memory, or reads too little.
  double read_ms = 0;
  double gflops() const { return static_cast<double>(flops) / cold_ms.value * 1e-6; }
  double effective_gflops() const { return static_cast<double>(effective_flops) / cold_ms.value * 1e-6; }
  double gbps() const { return static_cast<double>(bytes) / cold_ms.value * 1e-6; }
  double memory_share() const { return (read_ms > 0 ? read_ms : memory.ms) / cold_ms.value; }
};

struct KernelFigures {
  KernelTime chosen;                 ///< the default schedule
  double warm_ms = 0;                ///< of the default schedule, the same operands again and again
  std::string weights;               ///< how they were kept cold, in words
  std::optional<KernelTime> direct;  ///< where the default approximates: the default without
  Ratio gain;                        ///< time of `direct` over that of `chosen`, taken in pairs
};

/// Compiles a problem, or the graph of "TASK in PROBLEM", and measures the task, all forms interleaved. Throws
/// bad_input for a malformed line and for one that the passes make something else of, saying what.
KernelFigures measure_kernel(const std::string& problem, const Peaks& peaks, const KernelOptions& options);

/// Median and worst (least) of a share.
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
/// Lines "GAIN | PROBLEM", "#" starts a comment. Throws bad_input with the line's number.
std::vector<ExpectedGain> parse_expected_gains(std::string_view text, const std::string& where);

}  // namespace kilter::profile

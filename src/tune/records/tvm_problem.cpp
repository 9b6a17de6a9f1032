// Converts TVM's workloads to problem lines.

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "tune/records/tvm.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

struct TensorArg {
  std::vector<int64_t> shape;
  std::string type;
};

TensorArg tensor_arg(const json& arg) {
  if (!arg.is_array() || arg.size() < 3 || arg.at(0) != "TENSOR")
    fail(ErrorKind::bad_input, "expected a tensor among the arguments of the workload, got {}", json_text(arg));
  TensorArg out{arg.at(1).get<std::vector<int64_t>>(), arg.at(2).get<std::string>()};
  for (const int64_t extent : out.shape) {
    if (extent < 1) fail(ErrorKind::bad_input, "a tensor of the workload has the extent {}", extent);
  }
  return out;
}

std::string dtype_of(const std::string& task, const TensorArg& tensor) {
  if (tensor.type == "float32") return "f32";
  if (tensor.type == "float16") return "f16";
  if (tensor.type == "bfloat16") return "bf16";
  if (tensor.type == "float64") return "f64";
  fail(ErrorKind::unsupported,
       "{} of {}: only float32, float16, bfloat16 and float64 can be read (Kilter's integer convolutions and products "
       "have zero points, which the log lacks)",
       task, tensor.type);
}

/// Reads one number, or a list of `count`. If four are expected, two are also accepted: vertical and horizontal.
std::vector<int64_t> list_arg(const json& arg, size_t count) {
  if (arg.is_number_integer()) return std::vector<int64_t>(count, arg.get<int64_t>());
  std::vector<int64_t> values = arg.get<std::vector<int64_t>>();
  if (count == 4 && values.size() == 2) values = {values[0], values[1], values[0], values[1]};
  if (values.size() != count) fail(ErrorKind::bad_input, "expected {} numbers, got {}", count, json_text(arg));
  return values;
}

bool all_are(const std::vector<int64_t>& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

/// Returns a convolution in the format of Task::problem().
std::string conv_line(const ConvWords& c, const std::string& dtype) {
  std::string out = fmt::format("conv2d n{} c{} h{} w{} k{} r{} s{}", c.n, c.c, c.h, c.w, c.k, c.r, c.s);
  if (c.groups != 1) out += fmt::format(" g{}", c.groups);
  if (!all_are(c.stride, 1)) out += fmt::format(" stride{}", fmt::join(c.stride, ","));
  if (!all_are(c.pad, 0)) {
    out += all_are(c.pad, c.pad[0]) ? fmt::format(" pad{}", c.pad[0]) : fmt::format(" pad{}", fmt::join(c.pad, ","));
  }
  if (!all_are(c.dilation, 1)) out += fmt::format(" dil{}", fmt::join(c.dilation, ","));
  return out + " " + dtype;
}

struct ConvForm {
  bool depthwise = false, nhwc = false, grouped = false;
};

/// Reads the extents of image and filters from plain or blocked tensors (NCHWc and OIHWio).
void take_extents(const ConvForm& form, const std::vector<int64_t>& x, const std::vector<int64_t>& w, ConvWords& c) {
  if (form.nhwc && x.size() == 4 && w.size() == 4) {
    c.n = x[0], c.h = x[1], c.w = x[2], c.c = x[3];
    c.r = w[0], c.s = w[1], c.k = form.depthwise ? w[2] * w[3] : w[3];
  } else if (!form.nhwc && x.size() == 4 && w.size() == 4) {
    c.n = x[0], c.c = x[1], c.h = x[2], c.w = x[3];
    c.k = form.depthwise ? w[0] * w[1] : w[0], c.r = w[2], c.s = w[3];
  } else if (!form.nhwc && x.size() == 5 && w.size() == 6) {
    c.n = x[0], c.c = x[1] * x[4], c.h = x[2], c.w = x[3];
    c.k = w[0] * w[5], c.r = w[2], c.s = w[3];
  } else {
    fail(ErrorKind::unsupported,
         "a convolution of data with {} dimensions and weights with {}; expected 4 and 4, or 5 and 6 (NCHWc)", x.size(),
         w.size());
  }
  if (form.depthwise) c.groups = c.c;
}

std::string conv_problem(const std::string& task, const json& args) {
  ConvForm form;
  form.depthwise = task.find("depthwise") != std::string::npos;
  form.grouped = task.find("group_conv2d") != std::string::npos;
  form.nhwc = task.find("nhwc") != std::string::npos || task.find("NHWC") != std::string::npos;
  for (const json& arg : args) form.nhwc = form.nhwc || arg == "NHWC";
  const TensorArg x = tensor_arg(args.at(0)), w = tensor_arg(args.at(1));
  ConvWords c;
  take_extents(form, x.shape, w.shape, c);
  c.stride = list_arg(args.at(2), 2);
  c.pad = list_arg(args.at(3), 4);
  if (args.size() > 4 && (args.at(4).is_array() || args.at(4).is_number())) c.dilation = list_arg(args.at(4), 2);
  if (form.grouped) c.groups = args.at(5).get<int64_t>();
  return conv_line(c, dtype_of(task, x));
}

std::string product_problem(const std::string& task, const json& args) {
  const TensorArg a = tensor_arg(args.at(0)), b = tensor_arg(args.at(1));
  const std::string type = dtype_of(task, a);
  const bool batch = task.find("batch_matmul") != std::string::npos;
  const size_t rank = batch ? 3 : 2;
  if (a.shape.size() != rank || b.shape.size() != rank)
    fail(ErrorKind::unsupported, "{} of tensors with {} and {} dimensions; expected {} each", task, a.shape.size(),
         b.shape.size(), rank);
  std::vector<int64_t> second = b.shape;  // the log has it transposed
  std::swap(second[rank - 2], second[rank - 1]);
  std::string line = fmt::format("matmul({}[{}] {}[{}])", type, fmt::join(a.shape, ","), type, fmt::join(second, ","));
  if (!batch && args.size() > 2 && args.at(2).is_array()) line += fmt::format(" +add({}[{}])", type, second.back());
  return line;
}

}  // namespace

std::string tvm_problem(const std::string& task, const json& args) {
  const auto has = [&](std::string_view part) { return task.find(part) != std::string::npos; };
  if (has("conv2d") && !has("transpose") && !has("deform") && !has("gemm_weight") && !has("without_weight_transform"))
    return conv_problem(task, args);
  if (has("dense") && !has("sparse")) return product_problem(task, args);
  if (has("batch_matmul")) return product_problem(task, args);
  fail(ErrorKind::unsupported,
       "{}: only workloads of conv2d, depthwise and group conv2d, dense and batch_matmul can be read", task);
}

}  // namespace kilter::tune

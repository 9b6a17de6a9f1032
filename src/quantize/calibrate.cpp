#include "quantize/calibrate.h"

#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "compile/difference.h"
#include "compile/memory_model.h"
#include "onnx/model.h"

namespace kilter::quantize {
namespace {

/// Runs the float network on every sample and hands out the values.
class ValueRuns {
 public:
  ValueRuns(const Document& document, std::vector<std::string> values, const Samples& samples, const Runs& runs)
      : values_(std::move(values)), samples_(samples), runs_(runs) {
    Document watched = document;
    for (const std::string& value : values_) {
      if (!watched.is_input(value)) watched.add_output(value);
    }
    session_ = open(watched, runs);
  }

  void run(const std::string& doing, const std::function<void(const std::string&, const Tensor&, size_t)>& visit) {
    for (size_t i = 0; i < samples_.size(); ++i) {
      if (runs_.progress) runs_.progress(fmt::format("{}: sample {} of {}", doing, i + 1, samples_.size()));
      std::map<std::string, Tensor> all = samples_.load(i);
      all.merge(quantize::run(*session_, all));
      for (const std::string& value : values_) visit(value, all.at(value), i);
    }
  }

 private:
  std::vector<std::string> values_;
  const Samples& samples_;
  const Runs& runs_;
  std::unique_ptr<Session> session_;
};

[[noreturn]] void fail_value(const std::string& value, const std::string& sample) {
  fail(ErrorKind::bad_input,
       "{}: with this sample, the network computes a value '{}' that is not finite (NaN or infinity) although the "
       "sample "
       "is; expected finite values, since the scales are chosen from their range; correct the model or the sample, or "
       "leave the nodes that read the value float with --exclude",
       sample, printable(value));
}

}  // namespace

std::unique_ptr<Session> open(const Document& document, const Runs& runs) {
  document.save(runs.scratch);
  Session::Options options;
  options.compile = runs.compile;
  options.threads = runs.threads;
  // Errors name the user's file.
  const auto written = MappedFile::open(runs.scratch);
  const MemoryModel model(onnx::Model::parse(written->bytes(), document.file(), runs.scratch.parent_path()));
  return Session::open(model.name(), options);
}

std::map<std::string, Tensor> run(Session& session, const std::map<std::string, Tensor>& inputs) {
  std::vector<Tensor> outputs = session.run(inputs);
  const std::vector<onnx::Port> ports = session.outputs();
  std::map<std::string, Tensor> named;
  for (size_t i = 0; i < outputs.size(); ++i) named[ports[i].name] = std::move(outputs[i]);
  return named;
}

std::map<std::string, Range> calibrate(const Document& document, const std::vector<std::string>& values,
                                       const Samples& samples, const Calibration& how, const Runs& runs) {
  ValueRuns network(document, values, samples, runs);
  std::map<std::string, Range> ranges;
  network.run("ranges", [&](const std::string& value, const Tensor& tensor, size_t sample) {
    if (!all_finite(tensor)) fail_value(value, samples.name(sample));
    ranges[value].add(tensor.span<float>());
  });
  if (how.method == Method::minmax) return ranges;
  std::map<std::string, Histogram> histograms;
  for (const auto& [value, range] : ranges) histograms.emplace(value, range);
  network.run("histograms", [&](const std::string& value, const Tensor& tensor, size_t) {
    histograms.at(value).add(tensor.span<float>());
  });
  for (auto& [value, range] : ranges) {
    const Histogram& all = histograms.at(value);
    range = how.method == Method::entropy ? all.entropy() : all.percentile(how.percentile);
  }
  return ranges;
}

}  // namespace kilter::quantize

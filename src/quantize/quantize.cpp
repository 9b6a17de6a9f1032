#include "quantize/quantize.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "onnx/model.h"
#include "quantize/fold.h"
#include "quantize/opset.h"

namespace kilter::quantize {
namespace {

/// Returns the types of a model's values with the shapes of a sample.
std::map<std::string, TensorType> types_of(const Document& document, const std::map<std::string, Tensor>& sample,
                                           const Runs& runs) {
  const auto session = open(document, runs);
  const Graph graph = session->bind(sample).graph;
  std::map<std::string, TensorType> types;
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    if (!value.dead) types[value.name] = value.type;
  }
  return types;
}

/// Returns the version of ai.onnx that the files of a format need. (QuantizeLinear came with 10, scales for each
/// channel with 13.)
int64_t needed_opset(const Options& options) { return options.per_channel && options.format == Format::qdq ? 13 : 10; }

std::vector<std::string> owners(const Plan& plan) {
  std::set<std::string> all;
  for (const auto& [value, owner] : plan.values) all.insert(owner);
  return {all.begin(), all.end()};
}

/// Returns the bytes of the written weights.
int64_t write(Document document, const Plan& plan, const Scales& scales, Format format,
              const std::filesystem::path& out) {
  if (format == Format::qoperator) {
    write_qoperators(document, plan, scales);
  } else {
    QdqWriter writer(document, plan, scales);
    Nodes nodes = writer.write();
    document.nodes().Swap(&nodes);
  }
  document.remove_unused();
  document.save(out);
  return document.weight_bytes();
}

}  // namespace

Report quantise_model(const std::filesystem::path& model, const std::filesystem::path& samples_folder,
                      const Options& options, const std::filesystem::path& out) {
  Document document = Document::load(model, options.name);
  check_nodes_exist(document, options.exclude);
  const Samples samples(samples_folder, onnx::Model::load(model)->inputs());
  Report report;
  report.samples = samples.size();
  report.old_opset = document.opset(), report.old_bytes = document.weight_bytes();
  const std::map<std::string, TensorType> known = types_of(document, samples.load(0), options.runs);
  const auto find = [&](const std::string& value) {
    const auto found = known.find(value);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
  const Ranks ranks = [&](const std::string& value) {
    const auto type = find(value);
    return type ? std::optional(std::ssize(type->shape)) : std::nullopt;
  };
  const Types types = [&](const std::string& value) {
    const auto type = find(value);
    return type ? std::optional(type->dtype) : std::nullopt;
  };
  const std::string why = options.per_channel ? "--per-channel with --format qdq" : "QuantizeLinear";
  raise_opset(document, needed_opset(options), ranks, why, options.per_channel ? ", or leave out --per-channel" : "");
  report.opset = document.opset();
  report.folded = fold_into_convolutions(document) +
                  fold_into_gemms(document, [&](const std::string& value) { return ranks(value) == 2; });
  const Plan plan = make_plan(document, types, options.format, options.exclude);
  const auto ranges = calibrate(document, owners(plan), samples, options.calibration, options.runs);
  Scales scales{options.activations, options.weights, options.per_channel, {}};
  for (const auto& [value, range] : ranges) scales.of[value] = activation_affine(range, options.activations);
  report.measured = measure(document, plan, scales, ranges, samples, options.runs);
  report.left_out = plan.left_out;
  report.bytes = write(document, plan, scales, options.format, out);
  return report;
}

}  // namespace kilter::quantize

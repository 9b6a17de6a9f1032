// Weights in blocks of 4 or 8 bits, without samples.

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "quantize/opset.h"
#include "quantize/quantize.h"

namespace kilter::quantize {
namespace {

/// A matrix [sums, outputs] as signed integers with one scale for each block of `block` rows of a column.
struct Blocks {
  int64_t sums, outputs, block, count;  ///< count: blocks of a column
  std::vector<int8_t> values;           ///< [outputs, sums]
  std::vector<float> scales;            ///< [outputs, count]
  int8_t at(int64_t sum, int64_t output) const { return values[static_cast<size_t>(output * sums + sum)]; }
};

/// Quantises one column, whose weights are `stride` apart, and adds its error.
void quantise_column(const float* column, int64_t stride, int64_t output, int32_t least, Blocks& made, Error2& error) {
  for (int64_t b = 0; b < made.count; ++b) {
    const int64_t begin = b * made.block, end = std::min(begin + made.block, made.sums);
    float extreme = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float w = column[i * stride];
      if (std::abs(w) > std::abs(extreme)) extreme = w;
    }
    const float scale = extreme == 0 ? 1 : extreme / static_cast<float>(least);
    made.scales[static_cast<size_t>(output * made.count + b)] = scale;
    for (int64_t i = begin; i < end; ++i) {
      const float w = column[i * stride];
      const float q = std::clamp(std::nearbyint(w / scale), static_cast<float>(least), static_cast<float>(-1 - least));
      made.values[static_cast<size_t>(output * made.sums + i)] = static_cast<int8_t>(q);
      const auto exact = static_cast<double>(w), lost = exact - static_cast<double>(q * scale);
      error.signal += exact * exact, error.noise += lost * lost;
    }
  }
}

/// `transposed`: the weights are [outputs, sums].
Blocks make_blocks(const Tensor& weights, bool transposed, const WeightOptions& options, Error2& error) {
  const int64_t sums = weights.shape()[transposed ? 1 : 0], outputs = weights.shape()[transposed ? 0 : 1];
  Blocks made{sums, outputs, options.block, (sums + options.block - 1) / options.block, {}, {}};
  made.values.resize(static_cast<size_t>(sums * outputs));
  made.scales.resize(static_cast<size_t>(outputs * made.count));
  for (int64_t n = 0; n < outputs; ++n) {
    const float* column = weights.data<float>() + (transposed ? n * sums : n);
    quantise_column(column, transposed ? 1 : outputs, n, options.bits == 4 ? -8 : -128, made, error);
  }
  return made;
}

class WeightQuantiser {
 public:
  WeightQuantiser(Document& document, const WeightOptions& options, WeightReport& report)
      : document_(document), options_(options), report_(report) {}

  void run() {
    for (auto& node : document_.nodes()) visit(node);
    if (options_.format == Format::matmulnbits && !report_.layers.empty()) document_.import("com.microsoft");
    document_.nodes().Swap(&nodes_);
  }

 private:
  static bool transposed(const pb::NodeProto& node) { return int_attribute(node, "transB", 0) != 0; }

  std::string obstacle(const pb::NodeProto& node) const {
    if (options_.exclude.contains(node_name(node))) return "--exclude";
    if (node.output_size() != 1) return "it does not have one result";
    const Tensor* weights = node.input_size() > 1 ? document_.constant(node.input(1)) : nullptr;
    if (weights == nullptr) return "its second operand is not constant";
    if (weights->dtype() != DType::f32) return fmt::format("its weights are {}, expected f32", name(weights->dtype()));
    if (weights->rank() != 2 || weights->elems() == 0)
      return fmt::format("its weights have shape {}, expected a matrix", text(weights->shape()));
    const auto finite = [](float v) { return std::isfinite(v); };
    if (!std::ranges::all_of(weights->span<float>(), finite)) return "its weights contain NaN or infinity";
    if (options_.format == Format::qdq) return {};
    const bool scaled = float_attribute(node, "alpha", 1) != 1 || float_attribute(node, "beta", 1) != 1;
    return scaled || int_attribute(node, "transA", 0) != 0 ? "alpha, beta or transA is set" : "";
  }

  void visit(pb::NodeProto& node) {
    const std::string op = op_name(node);
    if (op != "MatMul" && op != "Gemm") {
      *nodes_.Add() = std::move(node);
      return;
    }
    if (const std::string why = obstacle(node); !why.empty()) {
      report_.left_out.push_back({node_name(node), op, why});
      *nodes_.Add() = std::move(node);
      return;
    }
    const Tensor weights = *document_.constant(node.input(1));
    WeightReport::Layer layer{node_name(node), op, weights.shape(), {}};
    const Blocks blocks = make_blocks(weights, transposed(node), options_, layer.error);
    report_.layers.push_back(std::move(layer));
    if (options_.format == Format::qdq) {
      add_qdq(std::move(node), blocks);
    } else {
      add_product(std::move(node), blocks);
    }
  }

  /// Adds MatMulNBits, and an Add for the bias of a Gemm.
  void add_product(pb::NodeProto node, const Blocks& blocks) {
    const bool bias = node.input_size() > 2 && !node.input(2).empty();
    const std::string result = bias ? document_.fresh(node.output(0) + "_product") : node.output(0);
    const std::string& hint = node.input(1);
    pb::NodeProto made = make_node(
        "com.microsoft:MatMulNBits", node_name(node),
        {node.input(0), document_.add(hint + "_quantized", packed(blocks)),
         document_.add(hint + "_scales", Tensor::of<float>({std::ssize(blocks.scales)}, std::span(blocks.scales)))},
        {result});
    set_attribute(made, "K", blocks.sums);
    set_attribute(made, "N", blocks.outputs);
    set_attribute(made, "bits", int64_t{options_.bits});
    set_attribute(made, "block_size", blocks.block);
    *nodes_.Add() = std::move(made);
    if (!bias) return;
    *nodes_.Add() =
        make_node("Add", document_.fresh(node_name(node) + "_bias"), {result, node.input(2)}, {node.output(0)});
  }

  /// Returns u8[outputs, blocks, bytes of a block]: each weight plus 2^(bits - 1), and 0 for weights after the last. A
  /// byte holds two 4-bit weights, the first one in its lower half.
  Tensor packed(const Blocks& blocks) const {
    const int64_t per_byte = 8 / options_.bits, zero = int64_t{1} << (options_.bits - 1);
    const int64_t bytes = blocks.block / per_byte;
    Tensor made(DType::u8, {blocks.outputs, blocks.count, bytes});
    for (int64_t n = 0; n < blocks.outputs; ++n) {
      uint8_t* column = made.data<uint8_t>() + n * blocks.count * bytes;
      for (int64_t k = 0; k < blocks.count * blocks.block; ++k) {
        const int64_t q = (k < blocks.sums ? blocks.at(k, n) : 0) + zero;
        column[k / per_byte] = static_cast<uint8_t>(column[k / per_byte] | (q << (k % per_byte * options_.bits)));
      }
    }
    return made;
  }

  /// Adds a DequantizeLinear before the product.
  void add_qdq(pb::NodeProto node, const Blocks& blocks) {
    const bool across = transposed(node);  // the weights are [outputs, sums]
    const std::string hint = node.input(1);
    const Shape shape = across ? Shape{blocks.outputs, blocks.sums} : Shape{blocks.sums, blocks.outputs};
    const auto in_order = [&](int64_t i) {
      return across ? blocks.at(i % blocks.sums, i / blocks.sums) : blocks.at(i / blocks.outputs, i % blocks.outputs);
    };
    const std::string values = options_.bits == 8 ? add_int8(hint, shape, in_order) : add_int4(hint, shape, in_order);
    Tensor scales(DType::f32, across ? Shape{blocks.outputs, blocks.count} : Shape{blocks.count, blocks.outputs});
    for (int64_t n = 0; n < blocks.outputs; ++n) {
      for (int64_t b = 0; b < blocks.count; ++b)
        scales.data<float>()[across ? n * blocks.count + b : b * blocks.outputs + n] =
            blocks.scales[static_cast<size_t>(n * blocks.count + b)];
    }
    const std::string result = document_.fresh(hint + "_dequantized");
    pb::NodeProto made = make_node("DequantizeLinear", document_.fresh(hint + "_DequantizeLinear"),
                                   {values, document_.add(hint + "_scales", std::move(scales))}, {result});
    set_attribute(made, "axis", int64_t{across ? 1 : 0});
    set_attribute(made, "block_size", blocks.block);
    *nodes_.Add() = std::move(made);
    node.set_input(1, result);
    *nodes_.Add() = std::move(node);
  }

  template <class F>
  std::string add_int8(const std::string& hint, const Shape& shape, F&& at) {
    Tensor values(DType::i8, shape);
    for (int64_t i = 0; i < values.elems(); ++i) values.data<int8_t>()[i] = at(i);
    return document_.add(hint + "_quantized", std::move(values));
  }
  template <class F>
  std::string add_int4(const std::string& hint, const Shape& shape, F&& at) {
    const int64_t count = kilter::elems(shape);
    Int4 values{shape, std::vector<uint8_t>(static_cast<size_t>((count + 1) / 2))};
    for (int64_t i = 0; i < count; ++i) {
      uint8_t& byte = values.bytes[static_cast<size_t>(i / 2)];
      byte = static_cast<uint8_t>(byte | ((at(i) & 15) << (i % 2 * 4)));
    }
    return document_.add(hint + "_quantized", std::move(values));
  }

  Document& document_;
  const WeightOptions& options_;
  WeightReport& report_;
  Nodes nodes_;
};

}  // namespace

WeightReport quantise_weights_only(const std::filesystem::path& model, const WeightOptions& options,
                                   const std::filesystem::path& out) {
  Document document = Document::load(model, options.name);
  check_nodes_exist(document, options.exclude);
  WeightReport report;
  report.old_opset = document.opset(), report.old_bytes = document.weight_bytes();
  if (options.format == Format::qdq) {
    const Ranks unknown = [](const std::string&) { return std::nullopt; };
    raise_opset(document, 21, unknown, "--format qdq with weights in blocks", ", or use --format matmulnbits");
  }
  report.opset = document.opset();
  WeightQuantiser(document, options, report).run();
  if (report.layers.empty()) {
    fail(ErrorKind::bad_model,
         "{}: nothing to quantise: expected at least one MatMul or Gemm with constant f32 weights of rank 2, found {}; "
         "convolutions need --samples",
         document.file(), report.left_out.empty() ? "none" : fmt::format("{} that cannot be", report.left_out.size()));
  }
  document.remove_unused();
  document.save(out);
  report.bytes = document.weight_bytes();
  std::ranges::stable_sort(report.layers, {}, [](const WeightReport::Layer& l) { return l.error.db(); });
  return report;
}

}  // namespace kilter::quantize

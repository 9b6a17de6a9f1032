#include "onnx/forms.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "ops/op.h"

namespace kilter::onnx {
namespace {

constexpr int64_t kFirstComparable = 11;

/// A change to the form of these operators after kFirstComparable, or the version that introduced them. `added` names
/// new attributes; a node without these attributes still has the old form. If `added` is empty, the forms always
/// differ.
struct Change {
  std::string_view ops;
  int32_t version;
  std::string_view added = {};
};

constexpr Change kChanges[] = {
    {"ArgMax ArgMin", 12, "select_last_index"},
    {"Celu Einsum GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss Dropout Constant", 12},
    {"GatherND", 12, "batch_dims"},
    {"DequantizeLinear QuantizeLinear Hardmax LogSoftmax Softmax ReduceSum Split Squeeze Unsqueeze Resize", 13},
    {"BatchNormalization HardSwish Trilu", 14},
    {"GRU LSTM RNN", 14, "layout"},
    {"Reshape", 14, "allowzero"},
    {"Bernoulli CastLike Optional OptionalGetElement OptionalHasElement", 15},
    {"Shape", 15, "start end"},
    {"GridSample RoiAlign", 16},
    {"ScatterElements ScatterND", 16, "reduction"},
    {"BlackmanWindow DFT HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT SequenceMap", 17},
    {"BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization Mish", 18},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare", 18},
    {"OptionalHasElement Pad", 18},
    {"LpPool", 18, "ceil_mode dilations"},
    {"Resize", 18, "keep_aspect_ratio_policy axes antialias"},
    {"Split", 18, "num_outputs"},
    {"AveragePool", 19, "dilations"},
    {"Cast CastLike QuantizeLinear", 19, "saturate"},
    {"DeformConv", 19},
    {"AffineGrid DFT Gelu GridSample ImageDecoder RegexFullMatch StringConcat StringSplit", 20},
    {"DequantizeLinear", 21, "block_size"},
    {"GroupNormalization", 21},
    {"QuantizeLinear", 21, "output_dtype block_size"},
    {"Attention RMSNormalization RotaryEmbedding", 23},
    {"DequantizeLinear", 23, "output_dtype"},
    {"QuantizeLinear", 23, "precision"},
    {"Attention Swish TensorScatter", 24},
    {"Cast CastLike", 24, "round_mode"},
    {"Attention", 25, "right_window_size left_window_size"},
    {"BitCast CumProd", 26},
    {"CausalConvWithState LinearAttention", 27},
    {"Range", 27, "stash_type"},
    {"SpaceToDepth", 28, "mode"},
    {"SwiGLU", 28},
};

bool concerns(const Change& change, const Node& node) {
  const auto ops = split_words(change.ops);
  if (std::find(ops.begin(), ops.end(), node.op->name) == ops.end()) return false;
  const auto added = split_words(change.added);
  return added.empty() || std::any_of(added.begin(), added.end(), [&](auto key) { return node.has_attr(key); });
}

}  // namespace

bool same_form(const Node& node, int64_t opset) {
  const auto [low, high] = std::minmax({int64_t{node.opset}, opset});  // minmax(a, b) would return dangling references
  if (low == high) return true;
  if (low < kFirstComparable) return false;
  return std::none_of(std::begin(kChanges), std::end(kChanges), [&, from = low, to = high](const Change& change) {
    return change.version > from && change.version <= to && concerns(change, node);
  });
}

}  // namespace kilter::onnx

// Recurrences of com.microsoft whose forms in ONNX have fewer attributes.
#include "ops/support/expander.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  std::vector<ValueId> causal_conv() {
    only("state_window", 0);
    only("channels_last", 0);
    only("dilation", 1);
    only("ndim", 1);
    return in_onnx("CausalConvWithState", {"activation"});
  }

  std::vector<ValueId> linear_attention() {
    only("state_window", 0);
    return in_onnx("LinearAttention", {"chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"});
  }

 private:
  void only(std::string_view key, int64_t value) const {
    const int64_t given = node().int_attr(key, value);
    if (given != value) unsupported(fmt::format("attribute {} is {}; only {} is supported", key, given, value));
  }

  std::vector<ValueId> in_onnx(std::string_view op, std::initializer_list<std::string_view> keys) {
    Attrs attrs;
    for (const auto& [key, value] : node().attrs) {
      if (std::ranges::find(keys, key) != keys.end()) attrs[key] = value;
    }
    return add_many(op, node().inputs, std::move(attrs), 2);
  }
};

std::vector<ValueId> expand_conv(ExpandContext& ctx) { return Expansion(ctx).causal_conv(); }
std::vector<ValueId> expand_attention(ExpandContext& ctx) { return Expansion(ctx).linear_attention(); }

}  // namespace

KILTER_OP(MicrosoftCausalConvWithState){
    .name = "CausalConvWithState",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 4,
    .max_outputs = 2,
    .attrs = {{"activation", "string", "none"},
              {"channels_last", "int", "0"},
              {"dilation", "int", "1"},
              {"ndim", "int", "1"},
              {"state_window", "int", "0"}},
    .summary = "CausalConvWithState of ONNX, for one dimension.",
    .expand = expand_conv,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,2] f32[3,1,4] ? f32[1,3,3] | activation=silu | | 2"},
};

KILTER_OP(MicrosoftLinearAttention){
    .name = "LinearAttention",
    .domain = "com.microsoft",
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = {{"chunk_size", "int", "64"},
              {"kv_num_heads", "int", "required"},
              {"q_num_heads", "int", "required"},
              {"scale", "float", "0"},
              {"state_window", "int", "0"},
              {"update_rule", "string", "gated_delta"}},
    .summary = "LinearAttention of ONNX.",
    .expand = expand_attention,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,5,12] f32[2,5,6] f32[2,5,8] | q_num_heads=4 kv_num_heads=2 update_rule=linear | | 2"},
};

}  // namespace kilter

// The encoder of Devlin et al., "BERT" (2018), with normalisation after each residual sum (Vaswani et al. 2017). The
// input is the sum of the embeddings. Attention and GELU are built from the simple operators that exporters emit.
#include <fmt/format.h>

#include <cmath>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr float kEpsilon = 1e-12F;

struct Form {
  int64_t layers, width, heads, inner;
};

struct Sizes {
  int64_t batch, tokens, heads, head_width;
};

/// [batch, tokens, width] -> [batch, heads, tokens, head_width], or the last two swapped.
ValueId split_heads(Net& net, const std::string& path, ValueId x, const Sizes& s, bool swapped) {
  const ValueId shape = net.ints(path + ".shape", {s.batch, s.tokens, s.heads, s.head_width});
  const ValueId split = net.op("Reshape", path + ".split", {x, shape});
  const std::vector<int64_t> perm = swapped ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3};
  return net.op("Transpose", path + ".transpose", {split}, {{"perm", perm}});
}

ValueId attention(Net& net, const std::string& path, ValueId x, const Sizes& s) {
  const int64_t width = s.heads * s.head_width;
  const ValueId query = split_heads(net, path + ".query", net.linear(path + ".query", x, width), s, false);
  const ValueId key = split_heads(net, path + ".key", net.linear(path + ".key", x, width), s, true);
  const ValueId value = split_heads(net, path + ".value", net.linear(path + ".value", x, width), s, false);
  const ValueId scores = net.op("MatMul", path + ".scores", {query, key});
  const ValueId scale = net.scalar(path + ".factor", 1 / std::sqrt(static_cast<float>(s.head_width)));
  const ValueId scaled = net.op("Mul", path + ".scale", {scores, scale});
  const ValueId shares = net.op("Softmax", path + ".softmax", {scaled}, {{"axis", int64_t{-1}}});
  const ValueId mixed = net.op("MatMul", path + ".mix", {shares, value});
  const ValueId joined = net.op("Transpose", path + ".join", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const ValueId flat =
      net.op("Reshape", path + ".flat", {joined, net.ints(path + ".flat.shape", {s.batch, s.tokens, width})});
  return net.linear(path + ".output", flat, width);
}

/// x / 2 * (1 + erf(x / sqrt(2))).
ValueId gelu(Net& net, const std::string& path, ValueId x) {
  const ValueId inner = net.op("Div", path + ".div", {x, net.scalar(path + ".root", std::sqrt(2.0F))});
  const ValueId erf = net.op("Erf", path + ".erf", {inner});
  const ValueId one_plus = net.op("Add", path + ".one_plus", {erf, net.scalar(path + ".one", 1)});
  const ValueId product = net.op("Mul", path + ".product", {x, one_plus});
  return net.op("Mul", path + ".half", {product, net.scalar(path + ".one_half", 0.5F)});
}

Graph encoder(const Options& options, const Form& form) {
  Net net(options);
  const Sizes sizes = {options.batch, options.size, form.heads, form.width / form.heads};
  ValueId x = net.input("input", {options.batch, options.size, form.width});
  x = net.layer_norm("embeddings.norm", x, kEpsilon);
  for (int64_t i = 0; i < form.layers; ++i) {
    const std::string path = fmt::format("layer.{}", i);
    x = net.add(path + ".attention.add", attention(net, path + ".attention", x, sizes), x);
    x = net.layer_norm(path + ".attention.norm", x, kEpsilon);
    ValueId y = gelu(net, path + ".gelu", net.linear(path + ".intermediate", x, form.inner, kReluGain));
    y = net.linear(path + ".output", y, form.width);
    x = net.layer_norm(path + ".norm", net.add(path + ".add", y, x), kEpsilon);
  }
  net.output(x);
  return net.take();
}

}  // namespace

std::vector<Row> transformer_rows() {
  return {{.name = "bert_base",
           .aliases = {"bert_base_128"},
           .summary = "encoder of BERT-base, from embeddings; the size is the number of tokens",
           .size = 128,
           .build = [](const Options& o) { return encoder(o, {12, 768, 12, 3072}); },
           .classes = 0}};
}

}  // namespace kilter::zoo

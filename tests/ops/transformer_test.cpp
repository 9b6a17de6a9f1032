// Operators of com.microsoft in transformers: properties common to their forms, and the errors for operands that do not
// fit.
#include <gtest/gtest.h>

#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

OpCase microsoft(std::string_view op, CaseText text) { return make_case(*find_op("com.microsoft", op, 1), text); }

std::vector<Tensor> results(std::string_view op, CaseText text) {
  const OpCase c = microsoft(op, text);
  return evaluate(c.graph, c.inputs);
}

std::string error_of(std::string_view op, CaseText text, ErrorKind kind = ErrorKind::bad_model) {
  try {
    results(op, text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.message();
  }
  return "no error";
}

/// The nodes of a case after expansion, by operator.
int64_t count_of(const OpCase& c, std::string_view op) {
  int64_t count = 0;
  for (const NodeId id : c.graph.order()) count += c.graph.node(id).op->name == op ? 1 : 0;
  return count;
}

TEST(GroupQuery, OneSequenceNeedsNoMaskAndNoIndices) {
  const OpCase step = microsoft("GroupQueryAttention",
                                "f32[1,1,16] f32[1,1,8] f32[1,1,8] f32[1,2,5,4] f32[1,2,5,4] i32[1]:5 i32[]=6 | "
                                "num_heads=4 kv_num_heads=2 | | 3");
  EXPECT_EQ(count_of(step, "Where"), 0);
  EXPECT_EQ(count_of(step, "ScatterND"), 0);
  EXPECT_EQ(count_of(step, "Concat"), 2);
}

TEST(GroupQuery, BufferBeyondTheSequenceIsKept) {
  const std::vector<Tensor> y =
      results("GroupQueryAttention",
              "f32[1,1,1]:2 f32[1,1,1]:3 f32[1,1,1]:4 f32[1,1,4,1]:5,6,7,8 f32[1,1,4,1]:9,8,7,6 "
              "i32[1]:1 i32[]=2 | num_heads=1 kv_num_heads=1 | | 3");
  EXPECT_EQ(load_doubles(y[1]), (std::vector<double>{5, 3, 7, 8}));
  EXPECT_EQ(load_doubles(y[2]), (std::vector<double>{9, 4, 7, 6}));
}

TEST(GroupQuery, SequencesOfDifferentLengthsWriteAtTheirOwnEnds) {
  const std::vector<Tensor> y =
      results("GroupQueryAttention",
              "f32[2,1,1]:2,2 f32[2,1,1]:3,4 f32[2,1,1]:5,6 f32[2,1,3,1]:1,1,1,2,2,2 "
              "f32[2,1,3,1]:0,0,0,0,0,0 i32[2]:2,0 i32[]=3 | num_heads=1 kv_num_heads=1 | | 3");
  EXPECT_EQ(load_doubles(y[1]), (std::vector<double>{1, 1, 3, 4, 2, 2}));
  EXPECT_EQ(y[0].as_double(1), 6);  // the second sequence sees only its own key
}

TEST(GroupQuery, Errors) {
  const std::string_view op = "GroupQueryAttention";
  const std::string_view heads = "num_heads=4 kv_num_heads=2";
  EXPECT_EQ(
      error_of(op, fmt::format("f32[1,1,18] f32[1,1,8] f32[1,1,8] ? ? i32[1]:0 i32[]=1 | {}", heads)),
      "GroupQueryAttention 'case': has a query of shape 1x1x18 with 4 heads and 2 heads of keys; expected [batch, "
      "queries, 4 * size] and a multiple of the heads of keys");
  EXPECT_EQ(error_of(op, fmt::format("f32[1,1,16] f32[1,1,6] f32[1,1,8] ? ? i32[1]:0 i32[]=1 | {}", heads)),
            "GroupQueryAttention 'case': key (input 1) has shape 1x1x6, expected 1x1x8");
  EXPECT_EQ(error_of(op, fmt::format("f32[2,1,16] f32[2,1,8] f32[2,1,8] ? ? i32[3]:0 i32[]=1 | {}", heads)),
            "GroupQueryAttention 'case': seqlens_k (input 5) has shape 3, expected 2, one element for each sequence");
  EXPECT_EQ(
      error_of(op,
               fmt::format("f32[1,1,16] f32[1,1,8] f32[1,1,8] f32[1,2,5,4] f32[1,2,5,4] i32[1]:7 i32[]=8 | {}", heads)),
      "GroupQueryAttention 'case': total_sequence_length is 8; expected 6, the past and the new positions, or 1 to 5, "
      "for "
      "a cache of a fixed capacity");
  EXPECT_EQ(error_of(op, fmt::format("f32[1,1,16] f32[1,1,8] f32[1,1,8] ? ? i32[1]:0 i32[]=1 | {} do_rotary=1", heads)),
            "GroupQueryAttention 'case': cos_cache (input 7) is left out but required");
  EXPECT_EQ(
      error_of(op,
               fmt::format("f32[1,1,16] f32[1,1,8] f32[1,1,8] ? ? i32[1]:0 i32[]=1 | {} local_window_size=0", heads)),
      "GroupQueryAttention 'case': attribute local_window_size is 0 and causal is 1; legal values are -1, and 1 to "
      "1073741824 with causal=1");
  EXPECT_EQ(
      error_of(
          op, fmt::format("f32[1,1,16] f32[1,1,8] f32[1,1,8] ? ? i32[1]:0 i32[]=1 | {} k_quant_type=PER_TENSOR", heads),
          ErrorKind::unsupported),
      "GroupQueryAttention 'case': attribute k_quant_type is 'PER_TENSOR': quantised caches are not supported; export "
      "the model with a cache of floats");
}

TEST(MultiHead, PackedOperandsGiveTheSameResult) {
  const std::string_view values = "1,2,3,4,5,6,7,8,9,10,11,12";  // [1, 2, 1, 3, 2]: q, k and v of two positions
  const std::vector<Tensor> packed =
      results("MultiHeadAttention", fmt::format("f32[1,2,1,3,2]:{} | num_heads=1 unidirectional=1 | | 3", values));
  const std::vector<Tensor> apart =
      results("MultiHeadAttention",
              "f32[1,2,2]:1,2,7,8 f32[1,2,2]:3,4,9,10 f32[1,2,2]:5,6,11,12 | num_heads=1 unidirectional=1 | | 3");
  const std::vector<Tensor> pair =
      results("MultiHeadAttention",
              "f32[1,2,2]:1,2,7,8 f32[1,2,1,2,2]:3,4,5,6,9,10,11,12 | num_heads=1 unidirectional=1 | | 3");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(load_doubles(packed[i]), load_doubles(apart[i]));
    EXPECT_EQ(load_doubles(pair[i]), load_doubles(apart[i]));
  }
}

TEST(MultiHead, Errors) {
  const std::string_view op = "MultiHeadAttention";
  EXPECT_EQ(error_of(op, "f32[2,3,8] f32[2,5,8] f32[2,5,8] f32[20] | num_heads=2"),
            "MultiHeadAttention 'case': bias (input 3) has shape 20, expected 24");
  EXPECT_EQ(
      error_of(op, "f32[2,3,8] f32[2,5,6] f32[2,5,8] | num_heads=2"),
      "MultiHeadAttention 'case': has q, k and v of shapes 2x3x8, 2x5x6 and 2x5x8 with 2 heads; expected [batch, "
      "queries, hidden], [batch, keys, hidden] and [batch, keys, v_hidden], or k and v [batch, heads, keys, size]");
  EXPECT_EQ(
      error_of(op, "f32[2,3,8] f32[2,5,8] f32[2,5,8] ? i32[2,4] | num_heads=2"),
      "MultiHeadAttention 'case': key_padding_mask (input 4) has shape 2x4, expected 2, 4 (ends, then starts) or 8 "
      "(ends, then offsets), 2x5, 2x3x5 or 2x1xNxN with N of at least 5");
  EXPECT_EQ(
      error_of(op, "f32[2,3,8] f32[2,5,8] f32[2,5,8] ? ? f32[2,3,5] | num_heads=2"),
      "MultiHeadAttention 'case': attention_bias (input 5) has shape 2x3x5, expected 2x2x3x5, 2x1x3x5, 1x2x3x5 or "
      "1x1x3x5");
  EXPECT_EQ(
      error_of(op, "f32[2,1,8] f32[2,1,8] f32[2,1,8] ? ? ? f32[2,2,5,4] f32[2,2,5,4] i32[1]=5 | num_heads=2"),
      "MultiHeadAttention 'case': past_sequence_length is 5; legal values are 0 to 4: 1 positions follow in a buffer "
      "of 5");
  EXPECT_EQ(
      error_of(op, "f32[2,1,8] f32[2,1,8] f32[2,1,8] ? ? ? ? ? ? i32[2,1,5] | num_heads=2", ErrorKind::unsupported),
      "MultiHeadAttention 'case': cache_indirection (input 9) is not supported: beam search needs a separate cache for "
      "each beam; export the model without it");
  EXPECT_EQ(
      error_of("Attention", "f32[2,3,8] f32[8,20] | num_heads=2 qkv_hidden_sizes=[8,8,8]"),
      "Attention 'case': has weights 8x20, qkv_hidden_sizes [8,8,8] and num_heads 2; expected equal sizes of q and k, "
      "multiples of num_heads, that add up with that of v to the columns of the weights");
}

TEST(Packed, TokensGiveTheSameAsPaddedSequences) {
  const std::string_view qkv = "f32[3,2]:1,2,3,4,5,6 f32[3,2]:1,0,2,1,0,3 f32[3,2]:7,8,9,10,11,12";
  const std::vector<Tensor> packed =
      results("PackedMultiHeadAttention", fmt::format("{} ? i32[2,2]:0,2,3,1 i32[3]:0,1,3 | num_heads=1", qkv));
  const std::vector<Tensor> padded =
      results("MultiHeadAttention",
              "f32[2,2,2]:1,2,0,0,3,4,5,6 f32[2,2,2]:1,0,0,0,2,1,0,3 f32[2,2,2]:7,8,0,0,9,10,11,12 ? i32[2]:1,2 | "
              "num_heads=1 mask_filter_value=-1e9");
  EXPECT_EQ(packed[0].shape(), (Shape{3, 2}));
  const std::vector<double> got = load_doubles(packed[0]), want = load_doubles(padded[0]);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], want[i < 2 ? i : i + 2], 1e-6);
}

TEST(Packed, PaddingIsRemovedAndRestored) {
  const std::vector<Tensor> y = results("RemovePadding", "f32[2,3,1]:1,2,3,4,5,6 i32[2]=1,2 | | | 4");
  EXPECT_EQ(load_doubles(y[0]), (std::vector<double>{1, 4, 5}));
  EXPECT_EQ(y[1].ints(), (std::vector<int64_t>{0, 3, 4, 1, 2, 5}));
  EXPECT_EQ(y[2].ints(), (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(y[3].ints(), (std::vector<int64_t>{2}));
  const std::vector<Tensor> back = results("RestorePadding", "f32[3,1]:1,4,5 i32[2,3]:0,3,4,1,2,5");
  EXPECT_EQ(load_doubles(back[0]), (std::vector<double>{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(error_of("RemovePadding", "f32[2,3,1] i32[2]=1,4", ErrorKind::bad_input),
            "RemovePadding 'case': sequence_token_count[1] is 4; legal values are 0 to 3");
  EXPECT_EQ(
      error_of("RestorePadding", "f32[7,1] i32[2,3]"),
      "RestorePadding 'case': token_offset (input 1) has shape 2x3, expected [batch, sequence] with a place for each "
      "of 7 tokens");
}

TEST(TransformerLayers, Errors) {
  EXPECT_EQ(error_of("SkipLayerNormalization", "f32[2,3,8] f32[2,8] f32[8]"),
            "SkipLayerNormalization 'case': skip (input 1) has shape 2x8, expected 2x3x8, 1x3x8 or 3x8");
  EXPECT_EQ(error_of("EmbedLayerNormalization", "i32[2,3] ? f32[5,8] f32[2,8] ? f32[8] f32[8]"),
            "EmbedLayerNormalization 'case': position_embedding has shape 2x8, expected at least 3 rows, one for each "
            "position");
  EXPECT_EQ(error_of("BiasGelu", "f32[2,3] f32[2]"), "BiasGelu 'case': bias (input 1) has shape 2, expected 3");
  EXPECT_EQ(error_of("RotaryEmbedding", "f32[2,3,8] i64[3] f32[9,4] f32[9,4]"),
            "RotaryEmbedding 'case': position_ids (input 1) has shape 3, expected 2x3");
  EXPECT_EQ(error_of("FusedConv", "f32[1,3,6,7] f32[4,3,1,1] | activation=Softmax"),
            "FusedConv 'case': attribute activation is 'Softmax'; legal values are Clip, Elu, HardSigmoid, HardSwish, "
            "LeakyRelu, Relu, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu, Selu");
  EXPECT_EQ(
      error_of("FusedMatMul", "f32[3,4] f32[4,5] | transBatchA=1"),
      "FusedMatMul 'case': attribute transBatchA is 1 for an operand of shape 3x4, expected at least 3 dimensions");
  EXPECT_EQ(error_of("RelativePositionBias", "f32[8,3] i64[]=99999 i64[]=5 | max_distance=6"),
            "RelativePositionBias 'case': query_length is 99999; legal values are 0 to 16384");
  EXPECT_EQ(error_of("GroupNorm", "f32[2,3,4,6] f32[3] f32[6] | groups=3 activation=1"),
            "GroupNorm 'case': gamma (input 1) has shape 3, expected 6");
  EXPECT_EQ(error_of("Rfft", "f32[2,8] | signal_ndim=2", ErrorKind::unsupported),
            "Rfft 'case': has signal_ndim=2, normalized=0 and onesided=1; only 1, 0 and 1 are supported");
  EXPECT_EQ(error_of("CropAndResize", "f32[1,2,5,5] f32[1,4] i32[1]:3 i32[2]=3,1", ErrorKind::bad_input),
            "CropAndResize 'case': batch_indices[0] is 3; legal values are 0 to 0");
  EXPECT_EQ(error_of("UnfoldTensor", "f32[2,7] | size=9"),
            "UnfoldTensor 'case': has size=9 and step=1; legal values are 1 to 7, and 1 or more");
  EXPECT_EQ(error_of("CausalConvWithState", "f32[1,3,2] f32[3,1,4] | dilation=2", ErrorKind::unsupported),
            "CausalConvWithState 'case': attribute dilation is 2; only 1 is supported");
}

TEST(MurmurHash3, HashesTheTailOfStrings) {
  const std::vector<Tensor> y = results("MurmurHash3", "str[3]:\"hello\",\"\",\"abcd\"");
  EXPECT_EQ(y[0].ints(), (std::vector<int64_t>{0x248bfa47, 0, 0x43ed676a}));
  EXPECT_EQ(error_of("MurmurHash3", "i32[2] | seed=-1"),
            "MurmurHash3 'case': attribute seed is -1; legal values are 0 to 4294967295");
}

TEST(TransformerLayers, RelativePositionsAreBucketed) {
  // Two heads, four buckets, keys before the query only: distances 0, 1, then 2 and more on a logarithmic scale.
  const std::vector<Tensor> y =
      results("RelativePositionBias", "f32[4,2]:0,1,2,3,10,11,12,13 i64[]=4 i64[]=4 | max_distance=8");
  EXPECT_EQ(y[0].shape(), (Shape{1, 2, 4, 4}));
  std::vector<double> first = load_doubles(y[0]);
  first.resize(16);
  EXPECT_EQ(first, (std::vector<double>{0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 2, 2, 1, 0}));
  EXPECT_EQ(y[0].as_double(16), 10);
}

}  // namespace
}  // namespace kilter

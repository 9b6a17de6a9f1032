// Built-in networks, which Kilter builds itself with seeded weights. Every network is a graph of ONNX operators at
// opset 17.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace kilter::zoo {

constexpr int32_t kOpset = 17;  ///< the opset of ai.onnx that every network uses

struct Options {
  int64_t batch = 1;
  int64_t size = 0;     ///< image height and width in pixels, or tokens; 0: the network's own
  double width = 1;     ///< multiplier of all channel counts, for rows with has_width: 0.05 to 8
  int64_t classes = 0;  ///< 0: the network's own
  uint64_t seed = 0;    ///< of the weights
  bool weights = true;  ///< false: all weights are 0 and occupy no memory; for callers that only need shapes
};

struct Row {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;
  int64_t size;                    ///< default image size in pixels, or tokens
  Graph (*build)(const Options&);  ///< for zoo::build(), which has checked the options and filled in size and classes
  int64_t classes = 1000;          ///< default; 0: the network has none
  int64_t least_size = 1;          ///< smallest size that the network supports
  int64_t size_step = 1;           ///< sizes are multiples of this
  bool has_width = false;          ///< accepts Options::width
  int64_t frames = 0;              ///< number of frames of a volume; 0: the input is images or tokens
};

/// All networks, family by family.
std::span<const Row> all();
/// Returns the row with this name or alias; nullptr when there is none.
const Row* find(std::string_view name);
/// Builds a network by name or alias; the graph's name is the row's. Each network has one input called "input" ("data"
/// in NAME_tvm, the form in TVM's reports): f32[batch,3,size,size] for images, f32[batch,3,frames,size,size] for
/// volumes, f32[batch,tokens,width of the model] for encoders. The first output is called "output". Weights depend only
/// on the seed and on their names. Throws usage for an unknown name (listing the names) and options that the network
/// lacks or that are out of range. Throws bad_input for a size that it does not support, naming the smallest one.
Graph build(std::string_view name, const Options& options = {});

}  // namespace kilter::zoo

// Ranges for the sizes of inputs' dimensions, as the option --shapes declares them:
//
//   x=1x3x{320..960:32}x{w=64..800}   ids=1x{seq=1,8,64}   mask=1x{seq}
//
// A dimension is a number, a range {LOW..HIGH} or {LOW..HIGH:STEP}, or a list {1,2,4}. NAME= before a range names the
// dimension: dimensions of the same name always have the same size, and {NAME} refers to one declared elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace kilter {

/// The sizes that a dimension may have.
struct DimRange {
  std::string symbol;         ///< its name; empty: none
  int64_t low = 0, high = 0;  ///< both included
  int64_t step = 1;
  std::vector<int64_t> list =
      {};               ///< the sizes in ascending order if they are a list; then low, high and step are unused
  bool refers = false;  ///< its sizes are those of another dimension of the same name

  int64_t count() const;
  /// The size with this index, in ascending order.
  int64_t at(int64_t index) const;
  bool contains(int64_t size) const;
  /// Whether sizes ascend from 0 to at most ShapeRanges::kMostSize, which parsing ensures.
  bool is_legal() const;
  bool same_sizes(const DimRange& other) const { return text(false) == other.text(false); }
  /// Returns "224", "{320..960:32}" or "{1,2,4}", and with its name "{h=320..960:32}" or, if it refers, "{h}".
  std::string text(bool named = true) const;
};

/// Equal declarations have equal texts.
class ShapeRanges {
 public:
  using Shapes = std::map<std::string, Shape>;
  struct Input {
    std::string name;
    std::vector<DimRange> dims;
  };

  /// The largest size that a range may have.
  static constexpr int64_t kMostSize = int64_t{1} << 40;

  /// Parses NAME=SHAPE for each input. Throws usage, naming the option --shapes, the text and what is legal.
  static ShapeRanges parse(const std::vector<std::string>& texts);
  /// Parses the shape of one input, as parse() does: "1x3x{320..960:32}".
  void add(const std::string& name, std::string_view shape);

  bool empty() const { return inputs_.empty(); }
  const std::vector<Input>& inputs() const { return inputs_; }
  std::vector<Input>& inputs() { return inputs_; }
  /// The input of this name; null if no range is declared for it.
  const Input* find(std::string_view name) const;
  /// Gives every dimension that refers to a name its sizes. Throws usage if no dimension declares them, or if two of
  /// the same name declare different ones.
  void resolve();

  // The following functions are for resolved ranges.

  /// Throws bad_input for the first of these shapes outside its ranges, and for dimensions of one name with different
  /// sizes. Inputs without ranges have any shape. `network` names the network in errors.
  void check(const Shapes& shapes, std::string_view network) const;
  /// The number of different shapes; INT64_MAX if there are more.
  int64_t count() const;
  /// The shapes with this index: sizes of later dimensions change first.
  Shapes at(int64_t index) const;
  /// Returns all shapes in order. There must not be more than fit into memory.
  std::vector<Shapes> all() const;
  /// Returns up to `most` different shapes spread over the ranges: the smallest, the largest, other corners, then
  /// seeded ones. Returns all of them if there are no more than `most`.
  std::vector<Shapes> spread(int64_t most) const;
  /// Returns "x=1x3x{320..960:32}x{320..960:32} mask=1x{seq=1..512}".
  std::string text() const;
  /// Returns the shape of one input, "1x3x{320..960:32}".
  static std::string text(const Input& input);

 private:
  /// Dimensions that always have the same size.
  struct Variable {
    const DimRange* range;
    std::vector<std::pair<size_t, size_t>> dims;  ///< input and axis
  };
  std::vector<Variable> variables() const;
  Shapes shapes_of(const std::vector<Variable>& variables, const std::vector<int64_t>& indices) const;

  std::vector<Input> inputs_;
};

/// Returns "dimension 2 ('h')", or "dimension 2" without a name.
std::string dimension_text(size_t axis, std::string_view symbol);

}  // namespace kilter

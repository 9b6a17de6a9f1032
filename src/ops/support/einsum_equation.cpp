#include "ops/support/einsum_equation.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace kilter {
namespace {

constexpr char kEllipsis = '.';  // replaces "..." once the text is checked

class Parser {
 public:
  Parser(const Node& node, std::string_view equation, std::span<const Shape> shapes)
      : node_(node), text_(equation), shapes_(shapes) {}

  EinsumEquation parse() {
    const size_t arrow = text_.find("->");
    std::vector<std::string> terms = split(text_.substr(0, arrow));
    if (terms.size() != shapes_.size()) {
      error(fmt::format("has {} terms on the left, expected {}, one for each input of the node", terms.size(),
                        shapes_.size()));
    }
    for (size_t i = 0; i < terms.size(); ++i) note_ellipsis(terms[i], shapes_[i]);
    for (size_t i = 0; i < ellipsis_rank_; ++i) result_.extents.push_back(1);
    for (size_t i = 0; i < terms.size(); ++i) add_operand(terms[i], shapes_[i]);
    if (arrow == std::string_view::npos) {
      set_output(implicit_output());
    } else {
      set_output(checked_term(text_.substr(arrow + 2)));
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void error(const std::string& what) const {
    node_error(node_, fmt::format("equation '{}' {}", text_, what));
  }

  /// Returns one term without spaces, with its ellipsis as one character.
  std::string checked_term(std::string_view term) const {
    std::string out;
    for (size_t i = 0; i < term.size(); ++i) {
      const char c = term[i];
      if (c == ' ') continue;
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        out += c;
      } else if (term.substr(i, 3) == "..." && out.find(kEllipsis) == std::string::npos) {
        out += kEllipsis;
        i += 2;
      } else {
        error(fmt::format("has '{}' where only letters and one '...' per term are legal", c));
      }
    }
    return out;
  }

  std::vector<std::string> split(std::string_view left) const {
    std::vector<std::string> terms;
    for (;;) {
      const size_t comma = left.find(',');
      terms.push_back(checked_term(left.substr(0, comma)));
      if (comma == std::string_view::npos) return terms;
      left.remove_prefix(comma + 1);
    }
  }

  void note_ellipsis(const std::string& term, const Shape& shape) {
    const bool has = term.find(kEllipsis) != std::string::npos;
    const size_t letters = term.size() - (has ? 1 : 0);
    if (has ? letters > shape.size() : letters != shape.size()) {
      error(fmt::format("gives {} labels to an input of shape {}", letters, kilter::text(shape)));
    }
    if (has) ellipsis_rank_ = std::max(ellipsis_rank_, shape.size() - letters);
  }

  int32_t label_of(char letter) {
    const auto [it, is_new] = labels_.emplace(letter, static_cast<int32_t>(result_.extents.size()));
    if (is_new) result_.extents.push_back(1);
    return it->second;
  }

  void add_operand(const std::string& term, const Shape& shape) {
    std::vector<int32_t> labels;
    const size_t ellipsis_dims = shape.size() + 1 - term.size();
    for (char c : term) {
      if (c == kEllipsis) {
        for (size_t k = ellipsis_rank_ - ellipsis_dims; k < ellipsis_rank_; ++k)
          labels.push_back(static_cast<int32_t>(k));
      } else {
        labels.push_back(label_of(c));
        ++uses_[c];
      }
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto first = std::find(labels.begin(), labels.end(), labels[d]);
      if (shape[static_cast<size_t>(first - labels.begin())] != shape[d]) {
        error(fmt::format("takes a diagonal over unequal dimensions of shape {}", kilter::text(shape)));
      }
      int64_t& extent = result_.extents[static_cast<size_t>(labels[d])];
      if (shape[d] != 1 && extent != 1 && extent != shape[d]) {
        error(fmt::format("gives one label to dimensions of sizes {} and {}", extent, shape[d]));
      }
      if (shape[d] != 1) extent = shape[d];
    }
    result_.operands.push_back(std::move(labels));
  }

  std::string implicit_output() const {
    std::string out(ellipsis_rank_ > 0 ? 1 : 0, kEllipsis);
    for (const auto& [letter, uses] : uses_) {
      if (uses == 1) out += letter;
    }
    return out;
  }

  void set_output(const std::string& term) {
    for (char c : term) {
      if (c == kEllipsis) {
        for (size_t k = 0; k < ellipsis_rank_; ++k) result_.output.push_back(static_cast<int32_t>(k));
        continue;
      }
      const auto it = labels_.find(c);
      if (it == labels_.end()) error(fmt::format("has the label '{}' only on the right", c));
      if (std::find(result_.output.begin(), result_.output.end(), it->second) != result_.output.end()) {
        error(fmt::format("repeats the label '{}' on the right", c));
      }
      result_.output.push_back(it->second);
    }
  }

  const Node& node_;
  std::string_view text_;
  std::span<const Shape> shapes_;
  size_t ellipsis_rank_ = 0;
  std::map<char, int32_t> labels_;
  std::map<char, int> uses_;  // in ASCII order, as required for the implicit output
  EinsumEquation result_;
};

}  // namespace

Shape EinsumEquation::output_shape() const {
  Shape shape;
  for (int32_t label : output) shape.push_back(extents[static_cast<size_t>(label)]);
  return shape;
}

EinsumEquation parse_einsum(const Node& node, std::string_view equation, std::span<const Shape> shapes) {
  return Parser(node, equation, shapes).parse();
}

}  // namespace kilter

#include "ops/support/quantized_product.h"

#include "ops/support/builder.h"

namespace kilter {

Shape product_parameter_shape(const Node& node, const Shape& parameter, const Shape& operand, bool rows,
                              std::string_view what) {
  if (elems(parameter) == 1) return {};
  const size_t rank = operand.size();
  Shape aligned = parameter;
  if (rows && parameter.size() == 1) aligned.push_back(1);
  const int64_t inner = aligned.size() < 2 ? 1 : aligned[aligned.size() - 2];
  const bool along_one = rows ? aligned.back() == 1 : inner == 1;
  if (rank < 2 || !along_one || aligned.size() > rank ||
      broadcast_shapes(std::vector<Shape>{aligned, operand}) != operand) {
    node_error(node, fmt::format("{} has shape {}, expected one element or one per {} of {}", what, text(parameter),
                                 rows ? "row" : "column", text(operand)));
  }
  return aligned;
}

}  // namespace kilter

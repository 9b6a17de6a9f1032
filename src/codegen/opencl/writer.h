// Writes one function as OpenCL C.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/opencl/source.h"

namespace kilter::codegen {

/// Returns the type of a value in OpenCL C. f16 and bf16 are their bits, as ushort. Booleans are bool, but several
/// lanes of them are int: -1 or 0.
std::string opencl_type(VType type);

class OpenClWriter {
 public:
  explicit OpenClWriter(const LoopFunc& func) : func_(func) {}
  OpenClKernel write();

 private:
  // Functions and statements (writer.cpp).
  std::string arguments();
  void declare_scratch();
  void parallel_loop();
  void block(const std::vector<Stmt>& body);
  void statement(const StmtNode& s);
  void loop(const StmtNode& s);
  void bound_loop(const StmtNode& s);
  void branch(const StmtNode& s);
  void store(const StmtNode& s);
  void line(std::string_view text);
  /// Opens a block after `head`; `close` ends it.
  void open(std::string_view head);
  void close(std::string_view tail = "");
  /// Starts a statement: counts how often its expressions use each node.
  void begin_statement(const StmtNode& s);

  // Expressions (write_expr.cpp). The texts are operands: constants, names, calls or in parentheses.
  std::string value(const Expr& e);
  /// Writes a number that cannot overflow, such as an index.
  std::string index(const Expr& e);
  /// Returns a name for a value, of which a text may have several copies.
  std::string name_of(const Expr& e);
  std::string named(VType type, const std::string& text);
  /// Builds a vector from the texts of its lanes.
  template <class F>
  std::string each_lane(VType type, const F& lane);
  /// Calls a function of scalars for each lane.
  std::string call_lanes(VType type, std::string_view function, const std::vector<Expr>& args);
  static std::string component(const std::string& name, int32_t lanes, int32_t lane);
  std::string compute(const ExprNode& e);
  std::string splat(VType type, const std::string& scalar) const;
  std::string constant(const ExprNode& e) const;
  std::string ramp(const ExprNode& e);
  std::string load(const ExprNode& e);
  std::string gather(const ExprNode& e);
  /// Reads one lane of a load or gather from the element `at`.
  std::string element(const ExprNode& e, const std::string& at, const std::string& mask, int32_t lane);
  std::string select(const ExprNode& e);
  std::string unary(const ExprNode& e);
  std::string binary(const ExprNode& e);
  /// Returns whether a division or shift needs the guards of the prelude's functions.
  static bool needs_function(const ExprNode& e);
  std::string combine(Op op, VType type, const std::string& a, const std::string& b) const;
  /// Writes integer arithmetic that wraps.
  std::string wrapped(VType type, std::string_view sign, const std::string& a, const std::string& b) const;
  /// Casts the result of integer arithmetic, which C computes in int, to a smaller type.
  std::string narrowed(VType type, const std::string& text) const;
  std::string cast(VType to, const Expr& x);
  std::string lane_reduce(const ExprNode& e);
  void count(const Expr& e);
  std::string var(int32_t id) const;
  std::string reg(int32_t id) const;
  std::string buffer(int32_t id) const;

  const LoopFunc& func_;
  OpenClKernel kernel_;
  std::string out_;
  int depth_ = 0;
  bool plain_ = false;                                      ///< within index()
  int names_ = 0;                                           ///< names given to shared nodes
  std::unordered_map<const ExprNode*, int> uses_;           ///< in the present statement
  std::unordered_map<const ExprNode*, std::string> named_;  ///< shared nodes of the present statement
};

}  // namespace kilter::codegen

// Generates the LLVM IR of one LoopFunc. Used by this folder only.
//
// Registers are stack slots until mem2reg has run; loop variables and lets are SSA values from the start. f16 and bf16
// values are kept as their bits (i16) and widened to f32 around every operation, so that they round once per operation
// on every target. Booleans are i1 in registers and bytes 0 or 1 in memory.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/kernel_args.h"
#include "loop/loop.h"
#include "target/target.h"

namespace kilter::codegen {

class Emitter {
 public:
  Emitter(llvm::Module& module, const LoopFunc& func, const Target& target);

  /// Adds the function `i32 symbol(ptr args, i64 begin, i64 end, i32 worker)` (exec/plan.h KernelEntry) to the module.
  llvm::Function* emit(const std::string& symbol);

 private:
  using Value = llvm::Value;

  // emit_stmt.cpp
  void declare(const std::string& symbol);
  void declare_buffers();
  void declare_registers();
  void parallel_loop();
  void decode_parallel(Value* linear);
  void block(const std::vector<Stmt>& stmts);
  void statement(const StmtNode& s);
  void loop(const StmtNode& s);
  void branch(const StmtNode& s);
  void check(const StmtNode& s);
  /// Emits a check of all lanes of a mask.
  void collect_check(const Expr& lanes);
  /// Emits code that computes the kernel's return value, at the end of the kernel.
  Value* status();
  /// Adds a stack slot with an initial value to the function.
  llvm::AllocaInst* entry_slot(llvm::Type* type, llvm::Constant* initial, const char* name);
  /// Returns the weights of a branch that nearly always goes the first way.
  llvm::MDNode* likely();
  /// Emits `body(i)` for i = begin, begin + step, ... below end.
  template <class F>
  void counted_loop(const std::string& name, Value* begin, Value* end, int64_t step, F body);

  // emit_memory.cpp
  Value* load(const ExprNode& e);
  Value* load_plain(const ExprNode& e);
  Value* load_masked(const ExprNode& e);
  Value* load_strided(const ExprNode& e);
  Value* load_elements(int32_t buffer, VType type, Value* indices, Value* mask);
  Value* gather(const ExprNode& e);
  void store(const StmtNode& s);
  void scatter(const StmtNode& s);
  void prefetch(const StmtNode& s);
  Value* address(int32_t buffer, const Expr& index, bool in_bounds);
  Value* element_address(int32_t buffer, Value* index);
  /// Reads `lanes` adjacent elements in their memory form.
  Value* read(int32_t buffer, Value* address, int32_t lanes);
  /// Convert between the form in memory (booleans are bytes) and the form in registers.
  Value* from_memory(DType type, Value* v);
  Value* to_memory(DType type, Value* v);
  llvm::Instruction* tagged(llvm::Instruction* access, int32_t buffer);

  // emit_tiles.cpp
  /// Emits the code before the parallel loop, and after it.
  void begin_tiles();
  void end_tiles();
  void load_tile_config(const std::array<uint8_t, 64>& config);
  void tiles(const StmtNode& s);
  void tile(const StmtNode& s);

  // emit_expr.cpp
  Value* expr(const Expr& e);
  Value* compute(const ExprNode& e);
  Value* constant(const ExprNode& e);
  Value* unary(Op op, DType elem, Value* a);
  Value* unary_int(Op op, DType elem, Value* a);
  Value* binary(const ExprNode& e);
  Value* binary_float(Op op, Value* a, Value* b);
  Value* binary_int(Op op, DType elem, Value* a, Value* b);
  Value* divide_int(Op op, bool is_signed, Value* a, Value* b);
  Value* shift(Op op, bool is_signed, Value* a, Value* b);
  Value* compare(Op op, DType elem, Value* a, Value* b);
  Value* fused(Value* a, Value* b, Value* c);
  Value* dot(const ExprNode& e);
  Value* x86_dot(const ExprNode& e);
  Value* arm_dot(const ExprNode& e);
  Value* select(const ExprNode& e);
  Value* splat(Value* scalar, int32_t lanes);
  Value* ramp(const ExprNode& e);
  Value* shuffle(const ExprNode& e);
  Value* lane_reduce(const ExprNode& e);
  Value* combine(Op op, DType elem, Value* a, Value* b);

  // emit_cast.cpp
  Value* cast(DType from, DType to, Value* v);
  Value* to_bool(DType from, Value* v);
  Value* float_to_int(DType to, Value* v);
  Value* vector_to_int(DType to, Value* v);
  Value* widen(DType small, Value* bits);    ///< f16 or bf16 bits to f32
  Value* narrow(DType small, Value* value);  ///< f32 to f16 or bf16 bits, to nearest even
  Value* half_to_float(Value* bits);
  Value* float_to_half(Value* value);
  Value* round_to_odd(Value* value);  ///< f64 to f32, so that a second rounding to f16 or bf16 is right

  llvm::Type* elem_type(DType type);
  llvm::Type* memory_type(DType type);
  llvm::Type* type(VType t);
  static llvm::Type* same_lanes(llvm::Type* elem, Value* like);
  [[noreturn]] void unsupported(std::string_view what) const;

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const LoopFunc& func_;
  const Target& target_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_ = nullptr;
  Value* status_ = nullptr;  ///< stack slot of the result; null in kernels without checks
  /// Collected masks of vector checks, by element bits and lanes: all ones as long as no check has failed.
  std::map<std::pair<unsigned, int32_t>, llvm::AllocaInst*> collected_;
  std::vector<Value*> buffers_;                       ///< base addresses, by buffer
  std::vector<Value*> vars_;                          ///< values, by variable; null while not bound
  std::vector<Value*> registers_;                     ///< stack slots, by register
  std::vector<uint8_t> tile_numbers_;                 ///< numbers in the processor, by tile register
  bool one_tile_config_ = false;                      ///< loaded once for the whole kernel
  std::vector<llvm::MDNode*> scope_, others_;         ///< alias scopes by buffer: its own, and those of all others
  std::unordered_map<const ExprNode*, Value*> memo_;  ///< values of the current statement's subexpressions
};

}  // namespace kilter::codegen

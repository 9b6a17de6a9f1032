#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace kilter::codegen {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

/// The operand of LDTILECFG: palette 1 with the rows and the bytes per row of each tile register.
using TileConfig = std::array<uint8_t, 64>;

TileConfig config_of(const LoopFunc& func, const StmtNode& tiles) {
  constexpr size_t kRowBytes = 16, kRows = 48;  // offsets of the tables
  TileConfig config{};
  config[0] = 1;
  for (size_t i = 0; i < tiles.tiles.size(); ++i) {
    const TileInfo& t = func.tiles.at(static_cast<size_t>(tiles.tiles[i]));
    config[kRowBytes + 2 * i] = static_cast<uint8_t>(t.row_bytes());
    config[kRows + i] = static_cast<uint8_t>(t.rows);
  }
  return config;
}

void collect(const LoopFunc& func, const std::vector<Stmt>& stmts, std::vector<TileConfig>& configs) {
  for (const Stmt& s : stmts) {
    if (s->kind == StmtKind::tiles) configs.push_back(config_of(func, *s));
    collect(func, s->body, configs);
    collect(func, s->other, configs);
  }
}

}  // namespace

void Emitter::load_tile_config(const TileConfig& config) {
  llvm::Constant* bytes = llvm::ConstantDataArray::get(context_, config);
  auto* table = new llvm::GlobalVariable(module_, bytes->getType(), true, llvm::GlobalValue::PrivateLinkage, bytes,
                                         "tile_config");  // owned by the module
  table->setAlignment(llvm::Align(64));
  builder_.CreateIntrinsic(intrinsic::x86_ldtilecfg, {}, {table});
}

// A configuration takes as long as some tens of loads. If all `tiles` of the kernel have the same one, it is loaded
// once for each call.
void Emitter::begin_tiles() {
  std::vector<TileConfig> configs;
  collect(func_, func_.body, configs);
  if (configs.empty()) return;
  tile_numbers_.resize(func_.tiles.size(), 0);
  one_tile_config_ = std::ranges::all_of(configs, [&](const TileConfig& c) { return c == configs.front(); });
  if (one_tile_config_) load_tile_config(configs.front());
}

// Threads that keep their tile registers in use take more time to switch.
void Emitter::end_tiles() {
  if (!tile_numbers_.empty()) builder_.CreateIntrinsic(intrinsic::x86_tilerelease, {}, llvm::ArrayRef<Value*>());
}

void Emitter::tiles(const StmtNode& s) {
  for (size_t i = 0; i < s.tiles.size(); ++i) tile_numbers_[static_cast<size_t>(s.tiles[i])] = static_cast<uint8_t>(i);
  if (!one_tile_config_) load_tile_config(config_of(func_, s));
  block(s.body);
}

void Emitter::tile(const StmtNode& s) {
  const auto number = [&](size_t i) { return builder_.getInt8(tile_numbers_.at(static_cast<size_t>(s.tiles.at(i)))); };
  if (s.kind == StmtKind::tile_zero) {
    builder_.CreateIntrinsic(intrinsic::x86_tilezero, {}, {number(0)});
    return;
  }
  const TileInfo& first = func_.tiles[static_cast<size_t>(s.tiles[0])];
  if (s.kind == StmtKind::tile_dot) {
    const DType a = func_.tiles[static_cast<size_t>(s.tiles[1])].type;
    const DType b = func_.tiles[static_cast<size_t>(s.tiles[2])].type;
    const intrinsic::ID bytes = a == DType::i8 ? (b == DType::i8 ? intrinsic::x86_tdpbssd : intrinsic::x86_tdpbsud)
                                               : (b == DType::i8 ? intrinsic::x86_tdpbusd : intrinsic::x86_tdpbuud);
    builder_.CreateIntrinsic(a == DType::bf16 ? intrinsic::x86_tdpbf16ps : bytes, {},
                             {number(0), number(1), number(2)});
    return;
  }
  const bool load = s.kind == StmtKind::tile_load;
  Value* stride = builder_.getInt64(static_cast<uint64_t>(s.step * size_bytes(first.type)));
  builder_.CreateIntrinsic(load ? intrinsic::x86_tileloadd64 : intrinsic::x86_tilestored64, {},
                           {number(0), address(s.id, s.a, true), stride});
}

}  // namespace kilter::codegen

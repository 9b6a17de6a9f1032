#include "support/amx_emulator.h"

#include <signal.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/cpu_info.h"

namespace kilter::testing {

#if defined(__x86_64__)

namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

/// The tile registers of a thread and their configuration; palette 0: none.
struct TileState {
  uint8_t palette = 0, start_row = 0;
  std::array<uint16_t, kTiles> row_bytes{};
  std::array<uint8_t, kTiles> rows{};
  std::array<std::array<std::array<uint8_t, kRowBytes>, kRows>, kTiles> data{};

  bool usable(int tile) const {
    const auto t = static_cast<size_t>(tile);
    return palette == 1 && rows[t] > 0 && row_bytes[t] > 0;
  }
};
thread_local TileState state;
std::atomic<int64_t> executed = 0;

// --- decoding ---

/// An instruction with a VEX prefix of three bytes in map 0F38: the only form of AMX.
struct Instruction {
  uint8_t opcode = 0;
  int prefix = 0;  ///< VEX.pp: 0 none, 1 66, 2 F3, 3 F2
  int reg = 0, rm = 0, vvvv = 0;
  bool memory = false, sib = false;
  int base = -1, index = -1;  ///< general registers; -1: none
  int scale = 1;
  int64_t displacement = 0;
  bool relative = false;  ///< to the next instruction
  int length = 0;
};

/// Returns whether the bytes at `at` are such an instruction.
bool decode(const uint8_t* at, Instruction& out) {
  if (at[0] != 0xc4 || (at[1] & 0x1f) != 2) return false;
  const int not_r = at[1] >> 7 & 1, not_x = at[1] >> 6 & 1, not_b = at[1] >> 5 & 1;
  const bool wide = (at[2] & 0x80) != 0, long_vector = (at[2] & 4) != 0;
  if (wide || long_vector) return false;
  out.vvvv = ~(at[2] >> 3) & 15;
  out.prefix = at[2] & 3;
  out.opcode = at[3];
  const uint8_t modrm = at[4];
  const int mod = modrm >> 6;
  out.reg = (modrm >> 3 & 7) | (not_r != 0 ? 0 : 8);
  out.rm = (modrm & 7) | (not_b != 0 ? 0 : 8);
  out.memory = mod != 3;
  out.length = 5;
  if (!out.memory) return true;
  out.base = out.rm;
  if ((modrm & 7) == 4) {
    const uint8_t sib = at[out.length++];
    out.sib = true;
    out.scale = 1 << (sib >> 6);
    out.base = (sib & 7) | (not_b != 0 ? 0 : 8);
    out.index = (sib >> 3 & 7) | (not_x != 0 ? 0 : 8);
    if (out.index == 4) out.index = -1;
  }
  const bool no_base = mod == 0 && (out.base & 7) == 5;
  if (no_base) {
    out.relative = !out.sib;
    out.base = -1;
  }
  const auto signed_bytes = [&](int count) {
    int32_t value = 0;
    if (count == 1) value = static_cast<int8_t>(at[out.length]);
    if (count == 4) std::memcpy(&value, at + out.length, 4);
    out.length += count;
    return int64_t{value};
  };
  out.displacement = signed_bytes(mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0);
  return true;
}

int64_t general(const ucontext_t& context, int number) {
  constexpr std::array kPlaces = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return number < 0 ? 0 : context.uc_mcontext.gregs[kPlaces[static_cast<size_t>(number)]];
}

/// The address of the operand without its index register, which AMX uses as the distance between rows.
uint8_t* base_address(const ucontext_t& context, const Instruction& i) {
  int64_t at = general(context, i.base) + i.displacement;
  if (i.relative) at += context.uc_mcontext.gregs[REG_RIP] + i.length;
  return reinterpret_cast<uint8_t*>(at);  // NOLINT(performance-no-int-to-ptr): the program computed it
}

// --- execution; every function returns false if the processor would raise #UD or #GP ---

bool load_config(const uint8_t* from) {
  TileState next;
  next.palette = from[0], next.start_row = from[1];
  if (next.palette > 1) return false;
  for (int i = 2; i < 16; ++i) {
    if (from[i] != 0) return false;
  }
  std::memcpy(next.row_bytes.data(), from + 16, sizeof next.row_bytes);
  std::memcpy(next.rows.data(), from + 48, sizeof next.rows);
  for (int i = 32; i < 48; ++i) {
    if (from[i] != 0) return false;
  }
  for (int i = 56; i < 64; ++i) {
    if (from[i] != 0) return false;
  }
  for (size_t t = 0; t < kTiles; ++t) {
    const bool none = next.row_bytes[t] == 0 && next.rows[t] == 0;
    const bool fits =
        next.row_bytes[t] > 0 && next.row_bytes[t] <= kRowBytes && next.rows[t] > 0 && next.rows[t] <= kRows;
    if (next.palette == 1 && !none && !fits) return false;
  }
  state = next.palette == 0 ? TileState{} : next;
  return true;
}

void store_config(uint8_t* to) {
  std::memset(to, 0, 64);
  to[0] = state.palette, to[1] = state.start_row;
  std::memcpy(to + 16, state.row_bytes.data(), sizeof state.row_bytes);
  std::memcpy(to + 48, state.rows.data(), sizeof state.rows);
}

bool load_tile(int tile, const uint8_t* from, int64_t stride) {
  if (!state.usable(tile)) return false;
  const auto t = static_cast<size_t>(tile);
  for (size_t r = state.start_row; r < state.rows[t]; ++r) {
    state.data[t][r].fill(0);
    std::memcpy(state.data[t][r].data(), from + static_cast<int64_t>(r) * stride, state.row_bytes[t]);
  }
  for (size_t r = state.rows[t]; r < kRows; ++r) state.data[t][r].fill(0);
  state.start_row = 0;
  return true;
}

bool store_tile(int tile, uint8_t* to, int64_t stride) {
  if (!state.usable(tile)) return false;
  const auto t = static_cast<size_t>(tile);
  for (size_t r = state.start_row; r < state.rows[t]; ++r)
    std::memcpy(to + static_cast<int64_t>(r) * stride, state.data[t][r].data(), state.row_bytes[t]);
  state.start_row = 0;
  return true;
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

/// The f32 value of a bf16, where subnormal numbers count as 0.
float widened(const uint8_t* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, 2);
  return flushed(std::bit_cast<float>(uint32_t{bits} << 16));
}

uint32_t element(const uint8_t* from, size_t i, bool is_signed) {
  return static_cast<uint32_t>(is_signed ? int32_t{static_cast<int8_t>(from[i])} : int32_t{from[i]});
}

using Row = std::array<uint8_t, kRowBytes>;

/// Adds the products of a row of the first factor to a row of the sum. For bf16, the products of even and of odd
/// elements have separate sums, which are added to each other and then to the sum.
void dot_bf16(Row& sum, const Row& a, const std::array<Row, kRows>& b, size_t depth, size_t columns) {
  for (size_t n = 0; n < columns; ++n) {
    float even = 0, odd = 0;
    for (size_t k = 0; k < depth; ++k) {
      even = flushed(std::fma(widened(&a[4 * k]), widened(&b[k][4 * n]), even));
      odd = flushed(std::fma(widened(&a[4 * k + 2]), widened(&b[k][4 * n + 2]), odd));
    }
    float old = 0;
    std::memcpy(&old, &sum[4 * n], 4);
    const float result = flushed(flushed(old) + flushed(even + odd));
    std::memcpy(&sum[4 * n], &result, 4);
  }
}

void dot_bytes(Row& sum, const Row& a, const std::array<Row, kRows>& b, size_t depth, size_t columns, bool a_signed,
               bool b_signed) {
  for (size_t n = 0; n < columns; ++n) {
    uint32_t total = 0;
    std::memcpy(&total, &sum[4 * n], 4);
    for (size_t k = 0; k < depth; ++k) {
      for (size_t i = 0; i < 4; ++i) total += element(&a[4 * k], i, a_signed) * element(&b[k][4 * n], i, b_signed);
    }
    std::memcpy(&sum[4 * n], &total, 4);
  }
}

bool dot(const Instruction& i) {
  if (i.reg >= kTiles || i.rm >= kTiles || i.vvvv >= kTiles) return false;
  if (i.reg == i.rm || i.reg == i.vvvv || i.rm == i.vvvv) return false;
  if (!state.usable(i.reg) || !state.usable(i.rm) || !state.usable(i.vvvv)) return false;
  const auto c = static_cast<size_t>(i.reg), a = static_cast<size_t>(i.rm), b = static_cast<size_t>(i.vvvv);
  if (state.row_bytes[c] % 4 != 0 || state.row_bytes[a] % 4 != 0 || state.row_bytes[b] % 4 != 0) return false;
  if (state.rows[c] != state.rows[a] || state.row_bytes[a] / 4 != state.rows[b] ||
      state.row_bytes[c] != state.row_bytes[b])
    return false;
  const size_t depth = state.row_bytes[a] / 4U, columns = state.row_bytes[c] / 4U;
  for (size_t m = 0; m < state.rows[c]; ++m) {
    Row& sum = state.data[c][m];
    if (i.opcode == 0x5c)
      dot_bf16(sum, state.data[a][m], state.data[b], depth, columns);
    else
      dot_bytes(sum, state.data[a][m], state.data[b], depth, columns, i.prefix >= 2, i.prefix == 1 || i.prefix == 3);
  }
  for (size_t m = state.rows[c]; m < kRows; ++m) state.data[c][m].fill(0);
  state.start_row = 0;
  return true;
}

bool execute(const ucontext_t& context, const Instruction& i) {
  constexpr int kNone = 0, k66 = 1, kF3 = 2, kF2 = 3;
  switch (i.opcode) {
    case 0x49:
      if (i.vvvv != 0) return false;
      if (!i.memory) {
        if (i.prefix == kNone && i.reg == 0 && i.rm == 0) {
          state = TileState{};
          return true;
        }
        if (i.prefix != kF2 || i.rm != 0 || i.reg >= kTiles || !state.usable(i.reg)) return false;
        for (Row& row : state.data[static_cast<size_t>(i.reg)]) row.fill(0);
        state.start_row = 0;
        return true;
      }
      if (i.reg != 0) return false;
      {
        uint8_t* at = base_address(context, i) + general(context, i.index) * i.scale;
        if (i.prefix == kNone) return load_config(at);
        if (i.prefix != k66) return false;
        store_config(at);
        return true;
      }
    case 0x4b: {
      if (i.vvvv != 0 || !i.sib || i.reg >= kTiles || i.prefix == kNone) return false;
      uint8_t* at = base_address(context, i);
      const int64_t stride = general(context, i.index) * i.scale;
      return i.prefix == kF3 ? store_tile(i.reg, at, stride) : load_tile(i.reg, at, stride);
    }
    case 0x5c:
      return i.prefix == kF3 && !i.memory && dot(i);
    case 0x5e:
      return !i.memory && dot(i);
    default:
      return false;
  }
}

struct sigaction previous;

void on_illegal_instruction(int /*signal*/, siginfo_t* /*info*/, void* data) {
  auto& context = *static_cast<ucontext_t*>(data);
  auto& next = context.uc_mcontext.gregs[REG_RIP];
  Instruction i;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of the instruction
  if (decode(reinterpret_cast<const uint8_t*>(next), i) && execute(context, i)) {
    next += i.length;
    executed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  sigaction(SIGILL, &previous, nullptr);  // the instruction runs again and ends the process
}

}  // namespace

void provide_amx() {
  static const bool once = [] {
    if (cpu_has("amx-tile") && cpu_has("amx-bf16") && cpu_has("amx-int8")) return true;
    struct sigaction action{};
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGILL, &action, &previous) == 0;
  }();
  static_cast<void>(once);
}

int64_t emulated_instructions() { return executed.load(std::memory_order_relaxed); }

#else

void provide_amx() {}
int64_t emulated_instructions() { return 0; }

#endif

}  // namespace kilter::testing

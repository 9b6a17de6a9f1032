// The loops are compiled with -O2 and without sanitizers in every kind of build (src/CMakeLists.txt).
#include "measure/loops.h"

#include <cstring>

#include "base/cpu_info.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kilter {
namespace {

template <class Row>
std::vector<Row> runnable(const std::vector<Row>& rows) {
  std::vector<Row> can;
  for (const Row& row : rows) {
    if (row.feature.empty() || cpu_has(row.feature)) can.push_back(row);
  }
  return can;
}

/// Returns the rows of the widest vectors that can run; they come first in each table.
template <class Row>
std::vector<Row> widest(const std::vector<Row>& rows) {
  std::vector<Row> can = runnable(rows);
  std::erase_if(can, [feature = can.front().feature](const Row& row) { return row.feature != feature; });
  return can;
}

void copy_libc(std::byte* to, const std::byte* from, int64_t bytes, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    asm volatile("" : : : "memory");
  }
}

#if defined(__x86_64__)

// The values neither grow nor vanish. The empty asm keeps the compiler from knowing that they are equal or constant.
#define KILTER_FMA_LOOP(NAME, TARGET, VECTOR, PREFIX, REGISTER)                                         \
  __attribute__((target(TARGET))) void NAME(int64_t iterations) {                                       \
    VECTOR half = PREFIX##_set1_ps(0.5F);                                                               \
    asm volatile("" : "+" REGISTER(half));                                                              \
    VECTOR a[12];                                                                                       \
    _Pragma("GCC unroll 12") for (int k = 0; k < 12; ++k) {                                             \
      a[k] = half;                                                                                      \
      asm volatile("" : "+" REGISTER(a[k]));                                                            \
    }                                                                                                   \
    for (int64_t i = 0; i < iterations; ++i) {                                                          \
      _Pragma("GCC unroll 12") for (int k = 0; k < 12; ++k) a[k] = PREFIX##_fmadd_ps(a[k], half, half); \
    }                                                                                                   \
    _Pragma("GCC unroll 12") for (int k = 0; k < 12; ++k) asm volatile("" : : REGISTER(a[k]));          \
  }

// Without fused instructions: equally many multiplies and adds, independent of each other.
#define KILTER_MUL_ADD_LOOP(NAME, TARGET, VECTOR, PREFIX)                                          \
  __attribute__((target(TARGET))) void NAME(int64_t iterations) {                                  \
    VECTOR one = PREFIX##_set1_ps(1.0F);                                                           \
    asm volatile("" : "+x"(one));                                                                  \
    VECTOR zero = PREFIX##_set1_ps(0.0F);                                                          \
    asm volatile("" : "+x"(zero));                                                                 \
    VECTOR a[6];                                                                                   \
    VECTOR m[6];                                                                                   \
    _Pragma("GCC unroll 6") for (int k = 0; k < 6; ++k) {                                          \
      a[k] = m[k] = one;                                                                           \
      asm volatile("" : "+x"(a[k]), "+x"(m[k]));                                                   \
    }                                                                                              \
    for (int64_t i = 0; i < iterations; ++i) {                                                     \
      _Pragma("GCC unroll 6") for (int k = 0; k < 6; ++k) {                                        \
        a[k] = PREFIX##_add_ps(a[k], zero);                                                        \
        m[k] = PREFIX##_mul_ps(m[k], one);                                                         \
      }                                                                                            \
    }                                                                                              \
    _Pragma("GCC unroll 6") for (int k = 0; k < 6; ++k) asm volatile("" : : "x"(a[k]), "x"(m[k])); \
  }

// Sums of products with 0. The instructions need up to six cycles, hence 16 sums.
#define KILTER_DOT_LOOP(NAME, TARGET, OPERAND, SUM, ZERO, DOT)                     \
  __attribute__((target(TARGET))) void NAME(int64_t iterations) {                  \
    OPERAND zero = (OPERAND)_mm512_setzero_si512();                                \
    asm volatile("" : "+v"(zero));                                                 \
    SUM sums[16];                                                                  \
    _Pragma("GCC unroll 16") for (SUM & sum : sums) {                              \
      sum = ZERO();                                                                \
      asm volatile("" : "+v"(sum));                                                \
    }                                                                              \
    for (int64_t i = 0; i < iterations; ++i) {                                     \
      _Pragma("GCC unroll 16") for (SUM & sum : sums) sum = DOT(sum, zero, zero);  \
    }                                                                              \
    _Pragma("GCC unroll 16") for (SUM & sum : sums) asm volatile("" : : "v"(sum)); \
  }

KILTER_DOT_LOOP(dot_bf16_avx512, "avx512f,avx512bf16", __m512bh, __m512, _mm512_setzero_ps, _mm512_dpbf16_ps)
KILTER_DOT_LOOP(dot_bytes_avx512, "avx512f,avx512vnni", __m512i, __m512i, _mm512_setzero_si512, _mm512_dpbusd_epi32)

// Sums of products of bytes in three instructions: pairs in words, pairs of these, and the addition.
#define KILTER_PAIRS_LOOP(NAME, TARGET, VECTOR, REGISTER, ZERO, BYTES, WORDS, ADD)         \
  __attribute__((target(TARGET))) void NAME(int64_t iterations) {                          \
    VECTOR zero = ZERO();                                                                  \
    asm volatile("" : "+" REGISTER(zero));                                                 \
    VECTOR sums[12];                                                                       \
    _Pragma("GCC unroll 12") for (VECTOR & sum : sums) {                                   \
      sum = ZERO();                                                                        \
      asm volatile("" : "+" REGISTER(sum));                                                \
    }                                                                                      \
    for (int64_t i = 0; i < iterations; ++i) {                                             \
      _Pragma("GCC unroll 12") for (VECTOR & sum : sums) {                                 \
        VECTOR product = WORDS(BYTES(zero, zero), zero);                                   \
        asm volatile("" : "+" REGISTER(product)); /* each product is computed */           \
        sum = ADD(sum, product);                                                           \
      }                                                                                    \
    }                                                                                      \
    _Pragma("GCC unroll 12") for (VECTOR & sum : sums) asm volatile("" : : REGISTER(sum)); \
  }

KILTER_PAIRS_LOOP(pairs_avx512, "avx512bw", __m512i, "v", _mm512_setzero_si512, _mm512_maddubs_epi16, _mm512_madd_epi16,
                  _mm512_add_epi32)
KILTER_PAIRS_LOOP(pairs_avx2, "avx2", __m256i, "x", _mm256_setzero_si256, _mm256_maddubs_epi16, _mm256_madd_epi16,
                  _mm256_add_epi32)
KILTER_PAIRS_LOOP(pairs_sse, "ssse3", __m128i, "x", _mm_setzero_si128, _mm_maddubs_epi16, _mm_madd_epi16, _mm_add_epi32)

/// Configures all eight tile registers with 16 rows of 64 bytes.
__attribute__((target("amx-tile"))) void configure_tiles() {
  struct alignas(64) {
    uint8_t palette = 1;
    uint8_t unused[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("" : : "r"(&config) : "memory");  // the intrinsic tells the compiler only about the first bytes
  _tile_loadconfig(&config);
}

// Products of tile registers that hold 0: two by two of them with four sums, in four iterations.
#define KILTER_TILE_LOOP(NAME, TARGET, DOT)                       \
  __attribute__((target(TARGET))) void NAME(int64_t iterations) { \
    configure_tiles();                                            \
    for (int64_t i = 0; i < iterations; i += 4) {                 \
      DOT(0, 4, 6);                                               \
      DOT(1, 4, 7);                                               \
      DOT(2, 5, 6);                                               \
      DOT(3, 5, 7);                                               \
    }                                                             \
    _tile_release();                                              \
  }

KILTER_TILE_LOOP(dot_bf16_amx, "amx-tile,amx-bf16", _tile_dpbf16ps)
KILTER_TILE_LOOP(dot_bytes_amx, "amx-tile,amx-int8", _tile_dpbusd)
KILTER_FMA_LOOP(fma_avx512, "avx512f", __m512, _mm512, "v")
KILTER_FMA_LOOP(fma_avx2, "avx2,fma", __m256, _mm256, "x")
KILTER_MUL_ADD_LOOP(mul_add_avx, "avx", __m256, _mm256)
KILTER_MUL_ADD_LOOP(mul_add_sse, "sse2", __m128, _mm)

// Reads kStreams parts of the buffer in turn, four cache lines of each at a time. Prefetches kAhead bytes ahead (0: no
// prefetch) with kLocality 3 (into all levels) or 0 (bypassing the outer ones).
#define KILTER_READ_LOOP(NAME, TARGET, LOAD, REGISTER, WIDTH)                                       \
  template <int kStreams, int kAhead, int kLocality>                                                \
  __attribute__((target(TARGET))) void NAME(const std::byte* from, int64_t bytes, int64_t passes) { \
    const int64_t stream = bytes / kStreams;                                                        \
    for (int64_t pass = 0; pass < passes; ++pass) {                                                 \
      for (int64_t i = 0; i < stream; i += 256) {                                                   \
        _Pragma("GCC unroll 8") for (int s = 0; s < kStreams; ++s) {                                \
          const std::byte* at = from + s * stream + i;                                              \
          if constexpr (kAhead > 0) {                                                               \
            _Pragma("GCC unroll 4") for (int line = 0; line < 4; ++line)                            \
                __builtin_prefetch(at + kAhead + 64 * line, 0, kLocality);                          \
          }                                                                                         \
          _Pragma("GCC unroll 16") for (int k = 0; k < 256 / WIDTH;                                 \
                                        ++k) asm volatile("" : : REGISTER(LOAD(at + WIDTH * k)));   \
        }                                                                                           \
      }                                                                                             \
      asm volatile("" : : : "memory");                                                              \
    }                                                                                               \
  }

#define KILTER_LOAD_512(P) _mm512_load_ps(P)
#define KILTER_LOAD_256(P) _mm256_load_ps(reinterpret_cast<const float*>(P))
#define KILTER_LOAD_128(P) _mm_load_ps(reinterpret_cast<const float*>(P))
KILTER_READ_LOOP(read_avx512, "avx512f", KILTER_LOAD_512, "v", 64)
KILTER_READ_LOOP(read_avx, "avx", KILTER_LOAD_256, "x", 32)
KILTER_READ_LOOP(read_sse, "sse2", KILTER_LOAD_128, "x", 16)

// Prefetches the source kAhead bytes ahead (0: no prefetch).
#define KILTER_COPY_LOOP(NAME, TARGET, LOAD, STORE, WIDTH)                                                         \
  template <int kAhead>                                                                                            \
  __attribute__((target(TARGET))) void NAME(std::byte* to, const std::byte* from, int64_t bytes, int64_t passes) { \
    for (int64_t pass = 0; pass < passes; ++pass) {                                                                \
      for (int64_t i = 0; i < bytes; i += 256) {                                                                   \
        if constexpr (kAhead > 0) {                                                                                \
          _Pragma("GCC unroll 4") for (int line = 0; line < 4; ++line)                                             \
              __builtin_prefetch(from + i + kAhead + 64 * line, 0, 3);                                             \
        }                                                                                                          \
        _Pragma("GCC unroll 16") for (int k = 0; k < 256 / WIDTH; ++k)                                             \
            STORE(to + i + WIDTH * k, LOAD(from + i + WIDTH * k));                                                 \
      }                                                                                                            \
      asm volatile("" : : : "memory");                                                                             \
    }                                                                                                              \
    _mm_sfence();                                                                                                  \
  }
#define KILTER_STREAM_512(P, V) _mm512_stream_ps(reinterpret_cast<float*>(P), V)
#define KILTER_STREAM_256(P, V) _mm256_stream_ps(reinterpret_cast<float*>(P), V)
#define KILTER_STREAM_128(P, V) _mm_stream_ps(reinterpret_cast<float*>(P), V)
#define KILTER_STORE_512(P, V) _mm512_store_ps(reinterpret_cast<float*>(P), V)
#define KILTER_STORE_256(P, V) _mm256_store_ps(reinterpret_cast<float*>(P), V)
#define KILTER_STORE_128(P, V) _mm_store_ps(reinterpret_cast<float*>(P), V)
KILTER_COPY_LOOP(stream_avx512, "avx512f", KILTER_LOAD_512, KILTER_STREAM_512, 64)
KILTER_COPY_LOOP(stream_avx, "avx", KILTER_LOAD_256, KILTER_STREAM_256, 32)
KILTER_COPY_LOOP(stream_sse, "sse2", KILTER_LOAD_128, KILTER_STREAM_128, 16)
KILTER_COPY_LOOP(copy_avx512, "avx512f", KILTER_LOAD_512, KILTER_STORE_512, 64)
KILTER_COPY_LOOP(copy_avx, "avx", KILTER_LOAD_256, KILTER_STORE_256, 32)
KILTER_COPY_LOOP(copy_sse, "sse2", KILTER_LOAD_128, KILTER_STORE_128, 16)

#define KILTER_COPY_ROWS(ISA, FEATURE, COPY, STREAM)                                  \
  {ISA, FEATURE, false, COPY<0>}, {ISA ", prefetch 2048", FEATURE, true, COPY<2048>}, \
      {ISA ", past the caches", FEATURE, true, STREAM<0>}, {                          \
    ISA ", past the caches, prefetch 2048", FEATURE, true, STREAM<2048>               \
  }

#define KILTER_READ_ROWS(ISA, FEATURE, NAME)                                                                 \
  {ISA ", 1 stream", FEATURE, false, NAME<1, 0, 3>}, {ISA ", 2 streams", FEATURE, false, NAME<2, 0, 3>},     \
      {ISA ", 4 streams", FEATURE, false, NAME<4, 0, 3>}, {ISA ", 8 streams", FEATURE, true, NAME<8, 0, 3>}, \
      {ISA ", 1 stream, prefetch 1024", FEATURE, true, NAME<1, 1024, 3>},                                    \
      {ISA ", 1 stream, prefetch 4096", FEATURE, true, NAME<1, 4096, 3>},                                    \
      {ISA ", 4 streams, prefetch 1024", FEATURE, true, NAME<4, 1024, 3>},                                   \
      {ISA ", 4 streams, prefetch 1024 once", FEATURE, true, NAME<4, 1024, 0>}, {                            \
    ISA ", 8 streams, prefetch 512", FEATURE, true, NAME<8, 512, 3>                                          \
  }

const std::vector<FlopLoop>& all_flop_loops() {
  static const std::vector<FlopLoop> rows = {{DType::f32, "avx512 fma", "avx512f", 12 * 16 * 2, fma_avx512},
                                             {DType::f32, "avx2 fma", "fma", 12 * 8 * 2, fma_avx2},
                                             {DType::f32, "avx mul, add", "avx", 6 * 8 * 2, mul_add_avx},
                                             {DType::f32, "sse mul, add", "", 6 * 4 * 2, mul_add_sse},
                                             {DType::bf16, "amx bf16", "amx-bf16", 16 * 16 * 64, dot_bf16_amx},
                                             {DType::i8, "amx int8", "amx-int8", 16 * 16 * 128, dot_bytes_amx},
                                             {DType::bf16, "avx512 bf16", "avx512bf16", 16 * 16 * 4, dot_bf16_avx512},
                                             {DType::i8, "avx512 vnni", "avx512vnni", 16 * 16 * 8, dot_bytes_avx512},
                                             {DType::i8, "avx512 pairs", "avx512bw", 12 * 16 * 8, pairs_avx512},
                                             {DType::i8, "avx2 pairs", "avx2", 12 * 8 * 8, pairs_avx2},
                                             {DType::i8, "sse pairs", "ssse3", 12 * 4 * 8, pairs_sse}};
  return rows;
}

const std::vector<ReadLoop>& all_read_loops() {
  static const std::vector<ReadLoop> rows = {KILTER_READ_ROWS("avx512", "avx512f", read_avx512),
                                             KILTER_READ_ROWS("avx", "avx", read_avx),
                                             KILTER_READ_ROWS("sse", "", read_sse)};
  return rows;
}

const std::vector<CopyLoop>& all_copy_loops() {
  static const std::vector<CopyLoop> rows = {KILTER_COPY_ROWS("avx512", "avx512f", copy_avx512, stream_avx512),
                                             KILTER_COPY_ROWS("avx", "avx", copy_avx, stream_avx),
                                             KILTER_COPY_ROWS("sse", "", copy_sse, stream_sse)};
  return rows;
}

#else

void mul_add_plain(int64_t iterations) {
  float a[32];
  for (float& x : a) x = 1;
  for (int64_t i = 0; i < iterations; ++i) {
    for (float& x : a) x = x * 0.5F + 0.5F;
    asm volatile("" : : "r"(a) : "memory");
  }
}

void read_plain(const std::byte* from, int64_t bytes, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i < bytes; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, from + i, 8);
      asm volatile("" : : "r"(word));
    }
    asm volatile("" : : : "memory");
  }
}

const std::vector<FlopLoop>& all_flop_loops() {
  static const std::vector<FlopLoop> rows = {{DType::f32, "compiler's vectors", "", 64, mul_add_plain}};
  return rows;
}
const std::vector<ReadLoop>& all_read_loops() {
  static const std::vector<ReadLoop> rows = {{"words", "", false, read_plain}};
  return rows;
}
const std::vector<CopyLoop>& all_copy_loops() {
  static const std::vector<CopyLoop> rows = {{"words", "", false, copy_libc}};
  return rows;
}

#endif

}  // namespace

std::vector<FlopLoop> flop_loops(DType products) {
  std::vector<FlopLoop> loops = runnable(all_flop_loops());
  std::erase_if(loops, [&](const FlopLoop& loop) { return loop.products != products; });
  return loops;
}

std::vector<ReadLoop> read_loops() { return widest(all_read_loops()); }

std::vector<CopyLoop> copy_loops() {
  std::vector<CopyLoop> rows = widest(all_copy_loops());
  rows.push_back({"memcpy", "", false, copy_libc});
  return rows;
}

}  // namespace kilter

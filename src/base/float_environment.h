// The floating-point environment that all of Kilter's computations assume.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kilter {

/// Sets the default environment for the calling thread: round to nearest, subnormals kept, no traps. The destructor
/// restores the thread's previous environment, including its exception flags.
class FloatEnvironment {
 public:
  FloatEnvironment() : saved_(read()) { write(kDefault); }
  ~FloatEnvironment() { write(saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  /// MXCSR and the x87 control word. The C library's functions depend on both.
  struct Word {
    uint32_t mxcsr;
    uint16_t x87;
  };
  static constexpr Word kDefault{0x1F80, 0x037F};  ///< all exceptions masked
  static Word read() {
    Word word{_mm_getcsr(), 0};
    asm volatile("fnstcw %0" : "=m"(word.x87));
    return word;
  }
  static void write(const Word& word) {
    _mm_setcsr(word.mxcsr);
    asm volatile("fldcw %0" : : "m"(word.x87));
  }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kDefault = 0;  ///< FPCR
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#endif

  Word saved_;
};

}  // namespace kilter

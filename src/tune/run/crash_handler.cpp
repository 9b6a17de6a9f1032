#include "tune/run/crash_handler.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <csignal>
#include <limits>

namespace kilter::tune {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int64_t kNear = int64_t{1} << 20;  ///< bytes; addresses further away belong to no region

struct Marked {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<int32_t> region{-1};
};
std::array<Marked, 256> marked;
Board* board_of_handler = nullptr;
thread_local int thread_index = -1;
std::atomic<bool> told{false};

uintptr_t stack_pointer([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.sp;
#else
  return 0;
#endif
}

/// Uses only operations that are safe in a signal handler: loads, stores, comparisons.
void describe(Crash& crash, uintptr_t address, uintptr_t stack) {
  crash.address = address;
  constexpr uintptr_t kStackSlack = 4096;
  crash.stack = address + kStackSlack > stack && address < stack + kStackSlack ? 1 : 0;
  int64_t nearest = kNear;
  for (const Marked& m : marked) {
    if (m.region.load() < 0) continue;
    const uintptr_t begin = m.begin.load(), end = m.end.load();
    const bool inside = address >= begin && address < end;
    const int64_t beyond = static_cast<int64_t>(address - end);
    const int64_t before = static_cast<int64_t>(begin - address);
    const int64_t distance = inside ? 0 : address >= end ? beyond : before;
    if (distance >= nearest) continue;
    nearest = distance;
    crash.region = m.region.load();
    crash.inside = inside ? 1 : 0;
    crash.distance = inside ? static_cast<int64_t>(address - begin) : address >= end ? beyond : -before;
  }
}

void on_signal(int signal, siginfo_t* info, void* context) {
  if (!told.exchange(true)) {
    Crash& crash = board_of_handler->crash;
    crash.signal = signal;
    crash.thread = thread_index;
    if (signal == SIGSEGV || signal == SIGBUS) {
      describe(crash, reinterpret_cast<uintptr_t>(info->si_addr), stack_pointer(context));
    }
    if (signal == SIGSYS) crash.address = static_cast<uint64_t>(info->si_syscall);
    crash.set = 1;
  }
  // The default action is restored: returning re-executes the faulting instruction, which kills the process. A signal
  // that would not recur in this way is raised again: one that was sent by a process, a trap, and SIGSYS, whose system
  // call was skipped.
  if (info->si_code <= 0 || signal == SIGTRAP || signal == SIGSYS) raise(signal);
}

void give_signal_stack() {
  // Never freed, since threads of the pool live as long as the process.
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
}

int32_t prepare_thread(void* /*context*/, int64_t /*begin*/, int64_t /*end*/, int32_t worker) {
  thread_index = worker;
  give_signal_stack();
  return 0;
}

}  // namespace

std::string_view name(Region region) {
  constexpr std::array<std::string_view, 5> kNames = {"the arena", "the scratch memory", "an input", "an output",
                                                      "the constants"};
  return kNames[static_cast<size_t>(region)];
}

void install_crash_handler(Board& board, ThreadPool& pool) {
  board_of_handler = &board;
  pool.run_on_each(prepare_thread, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) sigaction(signal, &action, nullptr);
}

MarkedRegion::MarkedRegion(Region region, const std::byte* begin, int64_t bytes)
    : slot_(std::numeric_limits<size_t>::max()) {
  for (size_t i = 0; i < marked.size(); ++i) {
    if (marked[i].region.load() >= 0) continue;
    slot_ = i;
    marked[i].begin = reinterpret_cast<uintptr_t>(begin);
    marked[i].end = reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes);
    marked[i].region = static_cast<int32_t>(region);
    return;
  }
}

MarkedRegion::~MarkedRegion() {
  if (slot_ < marked.size()) marked[slot_].region = -1;
}

}  // namespace kilter::tune

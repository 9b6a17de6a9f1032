// Moves the wall clock of a process by the number of nanoseconds in the file KILTER_MOVED_CLOCK (eight bytes), for
// tests of wrong clocks. It is linked into a test program, or loaded into another program (LD_PRELOAD). Monotonic
// clocks are not changed. Debian's libfaketime also moves clocks, but it opens files and allocates memory when the time
// is read, which PostgreSQL does in signal handlers, and it leaves files behind when a process is killed. Here the file
// is mapped, so changing it moves the clocks of all processes at once.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;
constexpr int64_t kNotMoved = 0;

const int64_t* map_offset() {
  const char* const file = std::getenv("KILTER_MOVED_CLOCK");
  const int fd = file != nullptr ? ::open(file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return &kNotMoved;
  void* const mapped = ::mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return mapped != MAP_FAILED ? static_cast<const int64_t*>(mapped) : &kNotMoved;
}

int64_t moved_by() {
  static const int64_t* place = nullptr;  // a thread that comes too late maps the file again
  const int64_t* at = __atomic_load_n(&place, __ATOMIC_ACQUIRE);
  if (at == nullptr) {
    at = map_offset();
    __atomic_store_n(&place, at, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(at, __ATOMIC_RELAXED);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto code = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (code != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return code;
  const int64_t all = now->tv_sec * kNanoseconds + now->tv_nsec + moved_by();
  now->tv_sec = all / kNanoseconds;
  now->tv_nsec = all % kNanoseconds;
  return 0;
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

#include "tune/run/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/align.h"
#include "base/error.h"
#include "base/out_of_memory.h"

namespace kilter::tune {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kGrowth = int64_t{4} << 20;

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

SharedMemory::SharedMemory(Handle file, int64_t reserve, bool writable) : file_(std::move(file)), reserve_(reserve) {
  size_ = file_bytes();
  void* at = mmap(nullptr, static_cast<size_t>(reserve), writable ? PROT_READ | PROT_WRITE : PROT_READ,
                  MAP_SHARED | MAP_NORESERVE, fd(), 0);
  if (at == MAP_FAILED) {
    fail(ErrorKind::io, "cannot reserve {} bytes of addresses for shared memory: {}", reserve, reason());
  }
  data_ = static_cast<std::byte*>(at);
}

SharedMemory SharedMemory::create(const std::string& name, int64_t reserve) {
  Handle file(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file) fail(ErrorKind::io, "cannot create shared memory '{}': {}", name, reason());
  return {std::move(file), reserve, true};
}

SharedMemory SharedMemory::attach(Handle file, int64_t reserve, bool writable) {
  return {std::move(file), reserve, writable};
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(other.size_),
      reserve_(other.reserve_) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(reserve_));
}

Handle SharedMemory::read_only() const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd());
  Handle handle(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle) fail(ErrorKind::io, "cannot open shared memory {} for reading: {}", path, reason());
  return handle;
}

int64_t SharedMemory::file_bytes() const {
  struct stat info{};
  return fstat(fd(), &info) == 0 ? std::min<int64_t>(info.st_size, reserve_) : 0;
}

void SharedMemory::grow(int64_t bytes) {
  if (bytes <= size_) return;
  const int64_t wanted = std::min(round_up(bytes, kGrowth), reserve_);
  if (bytes > wanted) {
    fail(ErrorKind::out_of_memory, "{} bytes are more shared memory than the {} that are reserved; drop variants first",
         bytes, reserve_);
  }
  if (ftruncate(fd(), wanted) != 0) fail_out_of_memory(wanted, "shared memory");
  size_ = wanted;
}

void SharedMemory::back(int64_t offset, int64_t bytes) {
  if (bytes > 0 && fallocate(fd(), 0, offset, bytes) != 0) fail_out_of_memory(bytes, "shared memory");
}

void SharedMemory::give_back(int64_t offset, int64_t bytes) {
  const int64_t begin = round_up(offset, kPage);
  const int64_t end = (offset + bytes) / kPage * kPage;
  // If the system cannot do this, the memory stays allocated, and is reused later.
  if (end > begin) (void)fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

}  // namespace kilter::tune

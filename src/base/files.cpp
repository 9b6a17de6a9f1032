#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace kilter {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

/// A file descriptor that closes itself.
struct Descriptor {
  int value = -1;
  explicit Descriptor(int fd) : value(fd) {}
  ~Descriptor() { close_now(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int close_now() {
    const int status = value >= 0 ? ::close(value) : 0;
    value = -1;
    return status;
  }
};

size_t open_for_reading(const std::filesystem::path& path, Descriptor& file) {
  file.value = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.value < 0) fail(ErrorKind::io, "cannot read file '{}': {}", path.string(), reason(errno));
  struct stat info{};
  if (::fstat(file.value, &info) != 0) {
    fail(ErrorKind::io, "cannot read file '{}': {}", path.string(), reason(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    fail(ErrorKind::io, "cannot read file '{}': it is a directory; expected a file", path.string());
  }
  return static_cast<size_t>(std::max<off_t>(info.st_size, 0));
}

/// Removes the temporary file unless it was renamed.
struct Temporary {
  std::filesystem::path path;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(path.c_str());
  }
};

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<uint64_t> count{0};
  std::filesystem::path name = path;
  name += fmt::format(".tmp-{}-{}", ::getpid(), count.fetch_add(1));
  return name;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(errno));
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

/// A device or pipe has no other file to be renamed to.
void write_device(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.value < 0) fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(errno));
  for (const auto& part : parts) write_all(file.value, part, path);
  if (file.close_now() != 0) fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(errno));
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  Descriptor file(-1);
  const size_t size = open_for_reading(path, file);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (data == MAP_FAILED) {
    fail(ErrorKind::io, "cannot map file '{}' of {} bytes: {}", path.string(), size, reason(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found;
}

std::string read_file(const std::filesystem::path& path) {
  Descriptor file(-1);
  std::string text;
  text.reserve(open_for_reading(path, file));
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t got = ::read(file.value, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::io, "cannot read file '{}': {}", path.string(), reason(errno));
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<size_t>(got));
  }
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (status.type() == std::filesystem::file_type::directory) {
    fail(ErrorKind::io, "cannot write file '{}': it is a directory; expected a file name", path.string());
  }
  if (std::filesystem::exists(status) && status.type() != std::filesystem::file_type::regular) {
    write_device(path, parts);
    return;
  }
  Temporary temporary{temporary_beside(path)};
  Descriptor file(::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.value < 0) {
    const int code = errno;
    temporary.kept = true;
    fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(code));
  }
  for (const auto& part : parts) write_all(file.value, part, path);
  if (file.close_now() != 0 || ::rename(temporary.path.c_str(), path.c_str()) != 0) {
    fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(errno));
  }
  temporary.kept = true;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  const std::array parts{std::as_bytes(std::span(bytes.data(), bytes.size()))};
  write_file_atomically(path, parts);
}

std::filesystem::path make_temporary_folder(std::string_view prefix) {
  const char* set = std::getenv("TMPDIR");
  const std::filesystem::path place = set != nullptr && *set != '\0' ? set : "/tmp";
  std::string name = (place / std::string(prefix)).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    fail(ErrorKind::io, "cannot make a temporary folder in {}: {}; TMPDIR names the folder to make it in",
         place.string(), reason(errno));
  }
  return name;
}

}  // namespace kilter

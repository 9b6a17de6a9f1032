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
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace kilter {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

/// A file descriptor that the destructor closes.
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

[[noreturn]] void fail_to_read(const std::filesystem::path& path, int code) {
  fail(ErrorKind::io, "cannot read file '{}': {}", path.string(), reason(code));
}

/// Opens `below`, a path relative to a folder, one component at a time. No component may be a symbolic link.
void open_step_by_step(const std::filesystem::path& folder, const std::filesystem::path& below, Descriptor& file) {
  constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;
  constexpr int kFile = O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;  // O_NONBLOCK: opening a pipe without a writer
                                                                       // does not wait
  Descriptor at(::open(folder.c_str(), kFolder));
  for (auto step = below.begin(); at.value >= 0 && step != below.end(); ++step) {
    const bool last = std::next(step) == below.end();
    const int next = ::openat(at.value, step->c_str(), (last ? kFile : kFolder) | O_NOFOLLOW);
    const int code = errno;
    at.close_now();
    at.value = next;
    errno = code;
  }
  if (at.value < 0) fail_to_read(folder / below, errno);
  file.value = std::exchange(at.value, -1);
}

size_t open_for_reading(const std::filesystem::path& path, Descriptor& file) {
  file.value = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.value < 0) fail_to_read(path, errno);
  struct stat info{};
  if (::fstat(file.value, &info) != 0) fail_to_read(path, errno);
  if (S_ISDIR(info.st_mode)) {
    fail(ErrorKind::io, "cannot read file '{}': it is a directory; expected a file", path.string());
  }
  return static_cast<size_t>(std::max<off_t>(info.st_size, 0));
}

/// The temporary files that remove_files_under_way() removes. If more than 16 are open at the same time, the others are
/// not removed.
std::array<std::atomic<const char*>, 16> under_way;

/// Removes the temporary file unless it was renamed.
struct Temporary {
  explicit Temporary(std::filesystem::path file) : path(std::move(file)) {
    for (auto& slot : under_way) {
      const char* none = nullptr;
      if (slot.compare_exchange_strong(none, path.c_str())) return;
    }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    for (auto& slot : under_way) {
      const char* own = path.c_str();
      if (slot.compare_exchange_strong(own, nullptr)) break;
    }
    if (!kept) ::unlink(path.c_str());
  }

  std::filesystem::path path;
  bool kept = false;
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

/// Writes to a file that cannot be replaced by renaming another file to its path: a device, a pipe, a mount point, or a
/// file in a folder without write permission.
void write_in_place(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
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
  return map(file.value, path, size);
}

std::shared_ptr<const MappedFile> MappedFile::open_below(const std::filesystem::path& folder,
                                                         const std::filesystem::path& below) {
  Descriptor file(-1);
  open_step_by_step(folder, below, file);
  const std::filesystem::path path = folder / below;
  struct stat info{};
  if (::fstat(file.value, &info) != 0) fail_to_read(path, errno);
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::io, "cannot read file '{}': it is not a regular file", path.string());
  return map(file.value, path, static_cast<size_t>(info.st_size));
}

std::shared_ptr<const MappedFile> MappedFile::map(int fd, const std::filesystem::path& path, size_t size) {
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    fail(ErrorKind::io, "cannot map file '{}' of {} bytes: {}", path.string(), size, reason(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found;
}

std::filesystem::path link_target(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_symlink(path, code)) return path;
  std::filesystem::path target = std::filesystem::canonical(path, code);
  return code ? path : target;
}

std::string read_file(const std::filesystem::path& path) {
  Descriptor file(-1);
  std::string text;
  text.reserve(open_for_reading(path, file));
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t got = ::read(file.value, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(path, errno);
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
    return write_in_place(path, parts);
  }
  const std::filesystem::path target = link_target(path);
  Temporary temporary(temporary_beside(target));
  Descriptor file(::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.value < 0) {
    const int code = errno;
    temporary.kept = true;
    if ((code == EACCES || code == EROFS) && ::access(target.c_str(), W_OK) == 0) return write_in_place(path, parts);
    fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(code));
  }
  if (std::filesystem::exists(status)) ::fchmod(file.value, static_cast<mode_t>(status.permissions()));
  for (const auto& part : parts) write_all(file.value, part, path);
  if (file.close_now() != 0 || ::rename(temporary.path.c_str(), target.c_str()) != 0) {
    if (errno == EBUSY) return write_in_place(path, parts);
    fail(ErrorKind::io, "cannot write file '{}': {}", path.string(), reason(errno));
  }
  temporary.kept = true;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  const std::array parts{std::as_bytes(std::span(bytes.data(), bytes.size()))};
  write_file_atomically(path, parts);
}

std::string file_name(std::string_view name, std::string_view extension, std::set<std::string>& taken) {
  constexpr size_t kMost = 200;  // of 255 bytes; the rest is for the extension and a temporary file's suffix
  constexpr size_t kKept = 160;
  std::string stem;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool mark = c == '.' || c == '-';
    const bool leads = stem.find_first_not_of('_') == std::string::npos;  // a name must not begin with '.' or '-'
    stem += letter || (mark && !leads) ? c : '_';
  }
  if (stem.empty()) stem = "_";
  if (stem.size() > kMost) stem = fmt::format("{}-{:016x}", stem.substr(0, kKept), hash_text(name));
  std::string file = fmt::format("{}{}", stem, extension);
  for (int n = 2; !taken.insert(file).second; ++n) file = fmt::format("{}-{}{}", stem, n, extension);
  return file;
}

void remove_files_under_way() noexcept {
  for (auto& slot : under_way) {
    if (const char* name = slot.exchange(nullptr)) ::unlink(name);
  }
}

std::filesystem::path make_temporary_folder(std::string_view prefix) {
  const char* set = std::getenv("TMPDIR");
  const std::filesystem::path place = set != nullptr && *set != '\0' ? set : "/tmp";
  std::string name = (place / std::string(prefix)).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    fail(ErrorKind::io, "cannot create a temporary folder in {}: {}; set TMPDIR to use another folder", place.string(),
         reason(errno));
  }
  return name;
}

}  // namespace kilter

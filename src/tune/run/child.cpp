#include "tune/run/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

extern char** environ;

namespace kilter::tune {
namespace {

constexpr int kMostWaitMs = 2000;
constexpr int kFirstFree = 16;  ///< all descriptors that the worker uses are below this

std::string reason(int error) { return std::generic_category().message(error); }

/// Duplicates a descriptor to a number above those that the worker uses, so that it is not overwritten before it is
/// passed on.
Handle moved_up(int fd) {
  Handle handle(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFree));
  if (!handle) fail(ErrorKind::io, "cannot pass a descriptor to a worker: {}", reason(errno));
  return handle;
}

/// Settings for posix_spawn, freed at the end.
struct SpawnSettings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  /// Uses a separate process group, so that Ctrl-C reaches only the tuner; no signal is blocked or ignored.
  void set_attributes() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(
        &attributes, static_cast<int16_t>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
  }
};

}  // namespace

Child::Child(const std::filesystem::path& program, const SharedMemory& store, const SharedMemory& log) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    fail(ErrorKind::io, "cannot create a socket for a worker: {}", reason(errno));
  }
  socket_ = Handle(ends[0]);
  const Handle theirs = [&] {
    const Handle low(ends[1]);
    return moved_up(low.get());
  }();
  const Handle constants = moved_up(store.read_only().get());
  const Handle times = moved_up(log.fd());
  error_ = Handle(memfd_create("kilter-worker-errors", MFD_CLOEXEC));
  SpawnSettings settings;
  settings.set_attributes();
  posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&settings.files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&settings.files, error_.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&settings.files, theirs.get(), kSocketFd);
  posix_spawn_file_actions_adddup2(&settings.files, constants.get(), kStoreFd);
  posix_spawn_file_actions_adddup2(&settings.files, times.get(), kLogFd);
  posix_spawn_file_actions_addclosefrom_np(&settings.files, kLogFd + 1);
  const bool main_thread = syscall(SYS_gettid) == getpid();
  std::vector<std::string> arguments = {program.string(), std::to_string(getpid()), main_thread ? "thread" : "process"};
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  const int error =
      posix_spawn(&pid_, program.c_str(), &settings.files, &settings.attributes, pointers.data(), environ);
  if (error != 0) {
    pid_ = -1;
    fail(ErrorKind::io, "cannot start the worker {}: {}", program.string(), reason(error));
  }
}

Child::~Child() {
  if (pid_ > 0) end(true);
}

double Child::cpu_ms() const {
  clockid_t clock{};
  timespec now{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

bool Child::stopped() const {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid_) + "/stat"), line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return false;
  return line[name_end + 2] == 'T' || line[name_end + 2] == 't';
}

Ending Child::end(bool kill) {
  Ending out;
  if (pid_ <= 0) return out;
  int status = 0;
  pid_t got = 0;
  // A worker whose socket is closed is about to exit, unless faulty code closed the socket.
  for (int ms = 0; !kill && got == 0 && ms < kMostWaitMs; ++ms) {
    got = waitpid(pid_, &status, WNOHANG);
    if (got == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (got == 0) ::kill(pid_, SIGKILL);
  while (got == 0 || (got < 0 && errno == EINTR)) got = waitpid(pid_, &status, 0);
  out.known = got == pid_;
  if (out.known && WIFSIGNALED(status)) out.signal = WTERMSIG(status);
  if (out.known && WIFEXITED(status)) out.exit = WEXITSTATUS(status);
  out.said = last_words(error_.get());
  pid_ = -1;
  return out;
}

}  // namespace kilter::tune

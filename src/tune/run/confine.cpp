#include "tune/run/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kilter::tune {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#endif

/// Calls for computing, waiting, memory and open descriptors. Some older ones exist only on x86-64.
constexpr uint32_t kAllowed[] = {
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_ppoll,
    SYS_sendto,
    SYS_sendmsg,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_membarrier,
    SYS_exit,
    SYS_exit_group,
    SYS_restart_syscall,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_getcpu,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrandom,
#if defined(__x86_64__)
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_poll,
    SYS_pause,
    SYS_time,
    SYS_getrlimit,
#endif
};

/// A call that is allowed if these bits of one argument (numbered from 0) have this value, and raises SIGSYS otherwise.
struct Condition {
  uint32_t call;
  uint32_t argument;
  uint32_t bits;
  uint32_t value;
};

constexpr uint32_t kAllBits = ~uint32_t{0};
/// Flags for opening a file for reading without creating or changing it.
constexpr uint32_t kReading = O_CLOEXEC | O_DIRECTORY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;

/// `self`: id of this process.
std::vector<Condition> conditions(uint32_t self) {
  return {
      {SYS_openat, 2, ~kReading, 0},
#if defined(__x86_64__)
      {SYS_open, 1, ~kReading, 0},
#endif
      {SYS_fcntl, 1, ~uint32_t{F_GETFD | F_SETFD | F_GETFL}, 0},  // not to request signals
      {SYS_clone, 0, CLONE_THREAD, CLONE_THREAD},
      {SYS_prlimit64, 0, kAllBits, 0},
      {SYS_kill, 0, kAllBits, self},
      {SYS_tgkill, 0, kAllBits, self},
  };
}

/// Calls that indicate faulty code or an attack.
constexpr uint32_t kForbidden[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_openat2,
    SYS_mknodat,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_truncate,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_memfd_create,
    SYS_mount,
    SYS_umount2,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_io_uring_setup,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_setuid,
    SYS_setgid,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
    SYS_creat,
    SYS_mknod,
    SYS_mkdir,
    SYS_rmdir,
    SYS_unlink,
    SYS_rename,
    SYS_renameat,
    SYS_link,
    SYS_symlink,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
#endif
};

/// Builds the filter one instruction at a time. The first return reached decides.
class Filter {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void answer(uint32_t action) { add(BPF_RET | BPF_K, action); }
  /// Returns `action` if the loaded word is `value`.
  void answer_if(uint32_t value, uint32_t action) {
    jump(BPF_JEQ, value, 0, 1);
    answer(action);
  }
  void answer_unless(uint32_t value, uint32_t action) {
    jump(BPF_JEQ, value, 1, 0);
    answer(action);
  }
  void answer_from(uint32_t least, uint32_t action) {
    jump(BPF_JGE, least, 0, 1);
    answer(action);
  }
  /// Expects the call's number to be loaded. Compares only the low half of the argument: all arguments in question are
  /// 32 bits wide.
  void answer_if_met(const Condition& c) {
    constexpr uint8_t kInstructions = 5;
    jump(BPF_JEQ, c.call, 0, kInstructions);
    load(offsetof(seccomp_data, args) + c.argument * sizeof(uint64_t));
    add(BPF_ALU | BPF_AND | BPF_K, c.bits);
    answer_if(c.value, SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_TRAP);
  }
  bool install() {
    sock_fprog program{static_cast<uint16_t>(code_.size()), code_.data()};
    // Without SPEC_ALLOW, some Linux kernels slow a filtered process down, which would distort its times.
    constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program) == 0;
  }

 private:
  void add(int code, uint32_t value) { code_.push_back({static_cast<uint16_t>(code), 0, 0, value}); }
  void jump(int test, uint32_t value, uint8_t yes, uint8_t no) {
    code_.push_back({static_cast<uint16_t>(BPF_JMP | test | BPF_K), yes, no, value});
  }
  std::vector<sock_filter> code_;
};

constexpr uint32_t refuse(uint32_t code) { return SECCOMP_RET_ERRNO | code; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

bool confine_process() {
  if (kSanitized) return false;  // the sanitizers' runtime makes system calls itself
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.answer_unless(kArch, SECCOMP_RET_KILL_PROCESS);
  filter.load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  constexpr uint32_t kX32 = 0x40000000;  // calls with numbers from here on belong to another ABI
  filter.answer_from(kX32, SECCOMP_RET_KILL_PROCESS);
#endif
  for (const uint32_t call : kAllowed) filter.answer_if(call, SECCOMP_RET_ALLOW);
  for (const Condition& c : conditions(static_cast<uint32_t>(getpid()))) filter.answer_if_met(c);
  for (const uint32_t call : kForbidden) filter.answer_if(call, SECCOMP_RET_TRAP);
  // The flags of clone3() are in memory, which a filter cannot read. After ENOSYS the C library uses clone() instead.
  filter.answer_if(SYS_clone3, refuse(ENOSYS));
  filter.answer(refuse(EPERM));
  return filter.install();
}

}  // namespace kilter::tune

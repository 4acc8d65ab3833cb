#include "tools/image_decoder/sandbox.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <iterator>
#include <vector>

namespace ringside::decoder {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the system calls of this architecture are unknown"
#endif

// Calls of read, write, malloc, free and _exit. A new mapping has no file: there is no descriptor of one.
constexpr int kAllowedCalls[] = {
    SYS_read,     SYS_write,   SYS_brk,          SYS_mmap,  SYS_munmap,    SYS_mremap,
    SYS_mprotect, SYS_madvise, SYS_rt_sigreturn, SYS_futex, SYS_getrandom, SYS_exit_group,
};

bool Limit(__rlimit_resource resource, int64_t value) {
  const rlimit limit{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  return setrlimit(resource, &limit) == 0;
}

bool FilterCalls() {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const int call : kAllowedCalls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// The user and group that own nothing. Without the right to change them the process already has few rights.
void LeaveRoot() {
  constexpr unsigned kNobody = 65534;
  if (geteuid() != 0) return;
  (void)!setgroups(0, nullptr);
  (void)!setresgid(kNobody, kNobody, kNobody);
  (void)!setresuid(kNobody, kNobody, kNobody);
}

/// Closes all files but the standard ones. Linux has the call since 5.9, but glibc its function since 2.34 only.
void CloseFiles() {
  if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0) return;
  for (int file = STDERR_FILENO + 1; file < sysconf(_SC_OPEN_MAX); ++file) close(file);
}

}  // namespace

bool EnterSandbox(const SandboxLimits& limits) {
  const pid_t parent = getppid();
  CloseFiles();
  LeaveRoot();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return false;  // the server ended before the line above
  const bool limited = Limit(RLIMIT_CPU, limits.cpu_seconds) && Limit(RLIMIT_CORE, 0) && Limit(RLIMIT_FSIZE, 0) &&
                       Limit(RLIMIT_NOFILE, 0) && (kSanitized || Limit(RLIMIT_AS, limits.memory_bytes));
  if (!limited || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return false;
  return kSanitized || FilterCalls();
}

}  // namespace ringside::decoder

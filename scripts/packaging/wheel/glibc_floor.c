// Lets programs that are linked with a recent glibc run with version 2.28: binds the calls whose symbols have got newer
// versions to the old ones, and defines those that 2.28 lacks. Part of the wheel's programs only. auditwheel reports a
// program that needs more.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define VERSION(on_x86) on_x86
#define JUMP(target) "jmp *" target "@GOTPCREL(%rip)"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define VERSION(on_x86) OLDEST  // everything older than the architecture
#define JUMP(target) "b " target
#endif

#pragma GCC visibility push(hidden)  // libraries keep their own glibc

// Calls of `name` continue in glibc's version `version`.
#define FORWARD_TO(name, version) \
  __asm__(".symver floor_" #name "," #name "@" version "\n" \
          ".text\n.p2align 4\n"                              \
          ".globl " #name "\n.hidden " #name "\n"            \
          ".type " #name ",%function\n" #name ":\n"          \
          JUMP("floor_" #name) "\n"                          \
          ".size " #name ",.-" #name "\n")
#define FORWARD(name) FORWARD_TO(name, OLDEST)

// Moved from libpthread and libdl to libc in 2.34, or changed in their handling of errors (libm, 2.29).
FORWARD(__pthread_key_create);
FORWARD(dladdr);
FORWARD(dlclose);
FORWARD(dlerror);
FORWARD(dlopen);
FORWARD(dlsym);
FORWARD(exp);
FORWARD(exp2);
FORWARD(log);
FORWARD(log2);
FORWARD(pow);
FORWARD_TO(pthread_condattr_setclock, VERSION("GLIBC_2.3.3"));
FORWARD(pthread_create);
FORWARD(pthread_detach);
FORWARD(pthread_getspecific);
FORWARD(pthread_join);
FORWARD(pthread_key_create);
FORWARD(pthread_key_delete);
FORWARD(pthread_mutex_timedlock);
FORWARD(pthread_mutex_trylock);
FORWARD(pthread_mutexattr_destroy);
FORWARD(pthread_mutexattr_init);
FORWARD(pthread_mutexattr_settype);
FORWARD(pthread_once);
FORWARD(pthread_rwlock_destroy);
FORWARD(pthread_rwlock_init);
FORWARD(pthread_rwlock_rdlock);
FORWARD(pthread_rwlock_unlock);
FORWARD(pthread_rwlock_wrlock);
FORWARD_TO(pthread_setname_np, VERSION("GLIBC_2.12"));
FORWARD(pthread_setspecific);
FORWARD(pthread_sigmask);

// Before 2.34 the program itself ran its constructors.
extern void _init(void);
extern void (*__init_array_start[])(int, char**, char**);
extern void (*__init_array_end[])(int, char**, char**);
typedef int Main(int, char**, char**);
__attribute__((visibility("default"))) int floor_start(Main* main, int argc, char** argv, Main* init,
                                                       void (*fini)(void), void (*linker_fini)(void), void* stack);
__asm__(".symver floor_start,__libc_start_main@" OLDEST);

static int RunConstructors(int argc, char** argv, char** environment) {
  _init();
  const size_t count = (size_t)(__init_array_end - __init_array_start);
  for (size_t i = 0; i < count; ++i) __init_array_start[i](argc, argv, environment);
  return 0;
}

int __libc_start_main(Main* main, int argc, char** argv, Main* init, void (*fini)(void), void (*linker_fini)(void),
                      void* stack) {
  (void)init;
  return floor_start(main, argc, argv, RunConstructors, fini, linker_fini, stack);
}

// 2.30, 2.32, 2.33 and 2.36. `struct stat` is the kernel's.
char __libc_single_threaded = 0;

pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

int stat(const char* restrict path, struct stat* restrict out) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}
int lstat(const char* restrict path, struct stat* restrict out) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int fstat(int file, struct stat* out) { return (int)syscall(SYS_fstat, file, out); }
int fstat64(int file, struct stat64* out) { return (int)syscall(SYS_fstat, file, out); }

uint32_t arc4random(void) {
  uint32_t value = 0;
  if (getentropy(&value, sizeof(value)) != 0) abort();
  return value;
}

// Waits until `until` on the clock: by the clock of pthread_cond_timedwait, which follows jumps of the system's time.
// Callers check their own clock and wait again.
int pthread_cond_clockwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex, clockid_t clock,
                           const struct timespec* restrict until) {
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  enum { kSecond_ns = 1000000000 };
  struct timespec now, at;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &at) != 0) return EINVAL;
  at.tv_sec += until->tv_sec - now.tv_sec;
  at.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (at.tv_nsec < 0) {
    at.tv_nsec += kSecond_ns;
    --at.tv_sec;
  } else if (at.tv_nsec >= kSecond_ns) {
    at.tv_nsec -= kSecond_ns;
    ++at.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &at);
}

// 2.35: the unwinder's search for the tables of a code address.
struct Search {
  ElfW(Addr) address;
  struct dl_find_object* found;
};

static int FindObject(struct dl_phdr_info* object, size_t size, void* context) {
  (void)size;
  const struct Search* search = context;
  int contains = 0;
  search->found->dlfo_eh_frame = NULL;
  for (ElfW(Half) i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    const ElfW(Addr) start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_LOAD && search->address - start < segment->p_memsz) contains = 1;
    if (segment->p_type == PT_GNU_EH_FRAME) search->found->dlfo_eh_frame = (void*)start;
  }
  return contains && search->found->dlfo_eh_frame != NULL;
}

int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Search search = {(ElfW(Addr))address, found};
  return dl_iterate_phdr(FindObject, &search) ? 0 : -1;
}

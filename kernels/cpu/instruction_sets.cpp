#include "kernels/cpu/instruction_sets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace ringside {
namespace cpu {
namespace {

#if defined(__x86_64__)
/// True if the processor has int8 tiles, the kernel saves them, and it lets this process use them. Permission for the 8
/// KiB of tile state must be requested once, before any thread uses a tile.
bool MayUseTiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || (c >> 27 & 1) == 0) return false;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;  // configuration and data
  if ((low & kTileState) != kTileState) return false;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kTile) == 0 || (d & kInt8) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// Appends the tables that this machine supports, slowest first.
void AppendUsable(std::vector<const KernelTable*>* out) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (avx2) out->push_back(&avx2::Table());
  if (avx2 && __builtin_cpu_supports("avxvnni")) out->push_back(&avx_vnni::Table());
  if (avx512) out->push_back(&avx512::Table());
  if (vnni) out->push_back(&avx512_vnni::Table());
  if (vnni && MayUseTiles()) out->push_back(&amx::Table());
}
#elif defined(__aarch64__)
/// Appends the tables that this machine supports, slowest first. NEON is a part of AArch64.
void AppendUsable(std::vector<const KernelTable*>* out) {
  const bool dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  out->push_back(&neon::Table());
  if (dotprod) out->push_back(&neon_dotprod::Table());
  if (dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) out->push_back(&neon_i8mm::Table());
}
#else
void AppendUsable(std::vector<const KernelTable*>*) {}
#endif

const std::vector<const KernelTable*>& UsableTables() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> out = {&portable::Table()};
    AppendUsable(&out);
    // Sets that a build leaves out (RINGSIDE_NATIVE) are the portable one under another name.
    out.erase(std::remove(out.begin() + 1, out.end(), out.front()), out.end());
    return out;
  }();
  return tables;
}

}  // namespace

const KernelTable* FindKernelTable(std::string_view name) {
  if (name.empty()) return UsableTables().back();
  for (const KernelTable* table : UsableTables()) {
    if (name == table->name) return table;
  }
  return nullptr;
}

}  // namespace cpu

std::span<const std::string_view> CpuInstructionSets() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const cpu::KernelTable* table : cpu::UsableTables()) out.emplace_back(table->name);
    return out;
  }();
  return names;
}

}  // namespace ringside

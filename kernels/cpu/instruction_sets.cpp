#include "kernels/cpu/instruction_sets.h"

#include <span>
#include <vector>

#include "kernels/backend.h"

namespace ringside {
namespace cpu {
namespace {

/// Tables this machine can run, slowest first.
const std::vector<const KernelTable*>& UsableTables() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> out = {&portable::Table()};
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    if (avx2) out.push_back(&avx2::Table());
    if (avx512) out.push_back(&avx512::Table());
    if (vnni) out.push_back(&avx512_vnni::Table());
#endif
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

// For libFuzzer: writes a target's seeds into its corpus folder, the first argument that is a folder.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/log.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  ringside::ConfigureLog(ringside::LogLevel::kError, ringside::LogFormat::kText);
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder = (*argv)[i];
    if (!std::filesystem::is_directory(folder)) continue;
    int number = 0;
    for (const std::string& seed : ringside::Seeds()) {
      std::ofstream(folder / ("seed_" + std::to_string(number++)), std::ios::binary) << seed;
    }
    break;
  }
  return 0;
}

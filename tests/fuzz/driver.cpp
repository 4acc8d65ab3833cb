// Runs a fuzz target without libFuzzer: its seeds, then a number of mutations, the same in every run.
//
//   <target> CHANGES        runs this number; the current input is in <target>.input, which survives a crash
//   <target> FILE           runs this input
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/log.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutator.h"

// No input here justifies a larger allocation. Read by AddressSanitizer, if present.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }

namespace ringside {
namespace {

void Try(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

void TryAll(const std::string& file, long changes) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  const auto run = [&](const std::string& input) {
    out.seekp(0) << input << std::flush;
    std::filesystem::resize_file(file, input.size());
    Try(input);
  };
  const std::vector<std::string> seeds = Seeds();
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(seeds);
  for (long i = 0; i < changes; ++i) run(mutator.Next());
  std::filesystem::remove(file);
  std::printf("%zu seeds and %ld changes\n", seeds.size(), changes);
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s CHANGES | FILE\n", argv[0]), 64;
  ringside::ConfigureLog(ringside::LogLevel::kError, ringside::LogFormat::kText);
  const std::string argument = argv[1];
  if (argument.find_first_not_of("0123456789") == std::string::npos) {
    ringside::TryAll(std::filesystem::path(argv[0]).filename().string() + ".input", std::stol(argument));
  } else {
    std::ifstream in(argument, std::ios::binary);
    if (!in) return std::fprintf(stderr, "%s cannot be read\n", argv[1]), 66;
    ringside::Try(std::string{std::istreambuf_iterator<char>(in), {}});
  }
  return 0;
}

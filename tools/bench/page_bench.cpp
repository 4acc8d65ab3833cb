// The time in which a device maps memory to the addresses of a slab and unmaps it, in runs of the given number of
// pages: from the request until a copy to the last page, which waits for it, is done. One JSON object per length.
//   page_bench [--device cuda] [--pages 1,2,4,8,32,128] [--repeats 20]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/backend.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int argc, char** argv) {
  std::string device = "cuda";
  std::vector<int64_t> lengths = {1, 2, 4, 8, 32, 128};
  int repeats = 20;
  CLI::App app("Measures how fast pages come and go.");
  app.add_option("--device", device);
  app.add_option("--pages", lengths)->delimiter(',');
  app.add_option("--repeats", repeats)->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, argc, argv);
  const double begin = Now();
  const std::unique_ptr<Backend> backend =
      MustHave(device == "cuda" ? MakeCudaBackend({.memory_utilization = 0.85}) : MakeCpuBackend({}));
  fmt::print("{{\"name\":\"start\",\"device\":\"{}\",\"ms\":{:.1f}}}\n", backend->Describe(), (Now() - begin) * 1e3);
  const int64_t page = backend->page_bytes(int64_t{1} << 30);
  for (const int64_t pages : lengths) {
    const auto bytes = static_cast<size_t>(pages * page);
    const Buffer range = MustHave(backend->Reserve(bytes));
    auto* last = static_cast<std::byte*>(range.data()) + bytes - 64;
    const std::byte line[64] = {};
    // For a copy alone, with newly mapped memory, and after unmapping.
    std::vector<double> copies, comings, goings, asked;
    for (int i = -2; i < repeats; ++i) {
      const auto copy = [&] {
        backend->CopyToDevice(last, line, sizeof(line));
        backend->Synchronize();
        return Now();
      };
      const double first = Now();
      MustBeOk(backend->Commit(range.data(), bytes));
      const double told = Now(), come = copy(), copied = copy();
      backend->Decommit(range.data(), bytes);
      MustBeOk(backend->Commit(range.data(), bytes));
      const double gone = copy();
      backend->Decommit(range.data(), bytes);
      if (i < 0) continue;
      asked.push_back(told - first), comings.push_back(come - first), copies.push_back(copied - come);
      goings.push_back(gone - copied);
    }
    const double copy = Median(copies), coming = Median(comings) - copy;
    fmt::print(
        "{{\"name\":\"pages\",\"pages\":{},\"mib\":{},\"ask_us\":{:.1f},\"map_us\":{:.1f},\"unmap_us\":{:.1f},\"copy_"
        "us\":{:.1f}}}"
        "\n",
        pages, bytes >> 20, Median(asked) * 1e6, coming * 1e6, (Median(goings) - copy - coming) * 1e6, copy * 1e6);
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }

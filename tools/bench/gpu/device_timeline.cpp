// A library that the CUDA driver loads into any program (CUDA_INJECTION64_PATH=.../libdevice_timeline.so). At exit it
// reports on standard error the device's activity and idle time, by CUPTI's clock:
//   DEVICE_TIMELINE=graphs   every graph launched at least 16 times: median time between two launches, and the
//                              device's idle time in it, which is the host's overhead. Hardly slows the program.
//   DEVICE_TIMELINE=kernels  the time of every kernel by name, including those in graphs. Slows short kernels.
//   DEVICE_TIMELINE=last     the last 256 kernels and copies in order: start and length in us. Slows short kernels.
//   DEVICE_TIMELINE=calls    the host time of every CUDA runtime call.
// One JSON object per line.
#include <cupti.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Span {
  uint64_t begin, end;  // ns
  uint32_t graph;       // 0: not a graph
  std::string name;     // of a kernel or a call
};
std::mutex mutex;
std::vector<Span> spans;
constexpr size_t kBufferBytes = size_t{8} << 20, kFewestLaunches = 16, kLastSpans = 256;

void Check(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS)
    fmt::print(stderr, "device_timeline: {} failed with {}\n", what, static_cast<int>(result));
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void Add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const auto& graph = reinterpret_cast<const CUpti_ActivityGraphTrace2&>(record);
      spans.push_back({graph.start, graph.end, graph.graphId, {}});
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      spans.push_back({kernel.start, kernel.end, 0, kernel.name});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      spans.push_back({copy.start, copy.end, 0, "copy"});
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME: {
      const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(record);
      const char* name = nullptr;
      Check(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call.cbid, &name), "cuptiGetCallbackName");
      spans.push_back({call.start, call.end, 0, name == nullptr ? "" : name});
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) Add(*record);
  std::free(buffer);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// For every graph: time from its launch to that of the next graph, itself or another.
void ReportGraphs() {
  struct Steps {
    std::vector<double> step_us, idle_us;
  };
  std::map<uint32_t, Steps> steps;
  const Span* launch = nullptr;
  uint64_t busy_until = 0;
  double idle = 0;
  for (const Span& span : spans) {
    if (span.begin > busy_until) idle += static_cast<double>(span.begin - busy_until) / 1e3;
    busy_until = std::max(busy_until, span.end);
    if (span.graph == 0) continue;
    if (launch != nullptr) {
      Steps& of = steps[launch->graph];
      of.step_us.push_back(static_cast<double>(span.begin - launch->begin) / 1e3);
      of.idle_us.push_back(idle);
    }
    launch = &span;
    idle = 0;
  }
  for (const auto& [graph, of] : steps) {
    if (of.step_us.size() < kFewestLaunches) continue;
    const double step = Median(of.step_us), idle_us = Median(of.idle_us);
    fmt::print(stderr, "{{\"graph\":{},\"launches\":{},\"step_us\":{:.1f},\"idle_us\":{:.2f},\"idle\":{:.4f}}}\n",
               graph, of.step_us.size() + 1, step, idle_us, idle_us / step);
  }
}

void ReportNames() {
  std::map<std::string, std::pair<int64_t, double>> sums;
  double busy = 0;
  uint64_t busy_until = spans.empty() ? 0 : spans.front().begin;
  for (const Span& span : spans) {
    auto& [count, us] = sums[span.name];
    ++count, us += static_cast<double>(span.end - span.begin) / 1e3;
    if (span.end > busy_until) busy += static_cast<double>(span.end - std::max(span.begin, busy_until)) / 1e3;
    busy_until = std::max(busy_until, span.end);
  }
  std::vector<std::pair<std::string, std::pair<int64_t, double>>> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  for (const auto& [name, sum] : sorted) {
    fmt::print(stderr, "{{\"name\":\"{}\",\"times\":{},\"us\":{:.2f},\"sum_us\":{:.0f}}}\n", name, sum.first,
               sum.second / static_cast<double>(sum.first), sum.second);
  }
  fmt::print(stderr, "{{\"name\":\"any\",\"busy_us\":{:.0f}}}\n", busy);
}

void ReportLast() {
  const size_t first = spans.size() - std::min(spans.size(), kLastSpans);
  for (size_t i = first; i < spans.size(); ++i) {
    fmt::print(stderr, "{{\"name\":\"{}\",\"begin_us\":{:.2f},\"us\":{:.2f}}}\n", spans[i].name,
               static_cast<double>(spans[i].begin - spans[first].begin) / 1e3,
               static_cast<double>(spans[i].end - spans[i].begin) / 1e3);
  }
}

bool Asked(std::string_view what) {
  const char* mode = std::getenv("DEVICE_TIMELINE");
  return mode != nullptr && what == mode;
}

void Report() {
  Check(cuptiActivityFlushAll(1), "cuptiActivityFlushAll");
  const std::lock_guard lock(mutex);
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  if (Asked("graphs")) return ReportGraphs();
  Asked("last") ? ReportLast() : ReportNames();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  Check(cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer), "cuptiActivityRegisterCallbacks");
  if (Asked("graphs")) Check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE), "graphs");
  if (Asked("calls")) {
    Check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), "calls");
  } else {
    Check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernels");
    Check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "copies");
  }
  std::atexit(Report);
  return 1;
}

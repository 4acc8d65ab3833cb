#include "kernels/cuda/ranks/rank_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "base/log.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/ranks/rank_argmax.h"
#include "kernels/cuda/ranks/rank_messages.h"
#include "kernels/cuda/ranks/rank_norms.h"

namespace ringside::cuda {

Status RankExchange::Start(std::unique_ptr<Comm> comm, const Options& options, const Launcher& on) {
  comm_ = std::move(comm);
  options_ = options;
  Status reach = Unavailable("NCCL was requested");
  if (options.algorithm != AllReduce::kNccl) {
    reach = AgreeOnStatus(*comm_, peers_.Start(*comm_, options.device));
    if (!reach.ok() && (options.algorithm == AllReduce::kOwn || reach.code() != StatusCode::kUnavailable)) return reach;
    RETURN_IF_ERROR(comm_->status());
  }
  reach_ = reach.ok();
  if (!reach_) peers_.Stop();
  if (reach_ && (options.algorithm == AllReduce::kOwn || options.fixed_order || !HasNccl())) return Status::Ok();
  const Status nccl = AgreeOnStatus(*comm_, StartNccl(on));
  RETURN_IF_ERROR(comm_->status());
  if (!nccl.ok()) {
    Stop();
    if (!reach_ && options.algorithm == AllReduce::kAuto) {
      return Unavailable(fmt::format("{}; nor by NCCL: {}", reach.message(), nccl.message()));
    }
    if (!reach_) return nccl;
    LogInfo("all-reduces use our own kernels: {}", nccl.message());
    return Status::Ok();
  }
  if (!reach_) {
    by_nccl_.fill(true);
    return Status::Ok();
  }
  const Status measured = AgreeOnStatus(*comm_, Measure(on));
  if (std::ranges::none_of(by_nccl_, [](bool by) { return by; })) {
    Stop();
    comm_->Barrier();  // all ranks have stopped before shared memory is freed
  }
  return measured;
}

Status RankExchange::StartNccl(const Launcher& on) {
  RETURN_IF_ERROR(messages_.Start(*comm_, options_.uuid, kMessageBytes, on.stream));
  // NCCL allocates memory at the first message of each size; force that before the remaining memory is divided.
  for (size_t size = 0; size < kSizes; ++size) {
    messages_.nccl().AllReduceSum(messages_.memory(), (kMinBytes << size) / StorageBytes(options_.dtype, 1),
                                  options_.dtype);
    messages_.nccl().AllGather(messages_.memory(), static_cast<size_t>((kMinBytes << size) / comm_->ranks()));
  }
  const auto waiting = Wait();
  CHECK_CUDA(cudaStreamSynchronize(on.stream));
  return messages_.status();
}

void RankExchange::Stop() {
  messages_.Stop();
  by_nccl_ = {};
}

template <class Sum>
float RankExchange::Time(const Launcher& on, const Sum& sum) {
  constexpr int kWarm = 3, kTimes = 5, kSums = 8;
  cudaEvent_t begin = nullptr, end = nullptr;
  CHECK_CUDA(cudaEventCreate(&begin));
  CHECK_CUDA(cudaEventCreate(&end));
  for (int i = 0; i < kWarm; ++i) sum();
  float least = 1e30f;
  for (int time = 0; time < kTimes; ++time) {
    CHECK_CUDA(cudaEventRecord(begin, on.stream));
    for (int i = 0; i < kSums; ++i) sum();
    CHECK_CUDA(cudaEventRecord(end, on.stream));
    const auto waiting = Wait();
    CHECK_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
    least = std::min(least, ms / kSums);
  }
  CHECK_CUDA(cudaEventDestroy(begin));
  CHECK_CUDA(cudaEventDestroy(end));
  return least;
}

Status RankExchange::Measure(const Launcher& on) {
  constexpr int64_t kCols = 4096, kMaxMessageBytes = kMinBytes << (kSizes - 1);
  const auto bytes = static_cast<size_t>(2 * kMaxMessageBytes);  // values are float32 here and 16-bit in transit
  void* memory = nullptr;
  const bool room = cudaMalloc(&memory, 2 * bytes) == cudaSuccess;
  static_cast<void>(cudaGetLastError());
  RETURN_IF_ERROR(AgreeOnStatus(*comm_, room ? Status::Ok() : Overloaded("no device memory to time all-reduces")));
  CHECK_CUDA(cudaMemsetAsync(memory, 0, 2 * bytes, on.stream));
  std::array<bool, kSizes> faster = {};
  for (size_t size = 0; size < kSizes; ++size) {
    const int64_t rows = (kMinBytes << size) / StorageBytes(options_.dtype, kCols);
    const Tensor x{DType::kF32, memory, rows, kCols, kCols};
    const Tensor y{DType::kF32, static_cast<std::byte*>(memory) + bytes, rows, kCols, kCols};
    const float own = Time(on, [&] { LaunchAllReduce(on, peers_.links(), options_.dtype, x, y, true); });
    faster[size] = Time(on, [&] { AllReduceByNccl(on, x, y, true); }) < own;
  }
  CHECK_CUDA(cudaFree(memory));
  comm_->Broadcast(&faster, sizeof(faster), 0);
  by_nccl_ = faster;
  return status();
}

std::string RankExchange::Describe() const {
  if (!started()) return "";
  if (!reach_) return ", all-reduce by NCCL";
  std::string sizes;
  for (size_t size = 0; size < kSizes; ++size) {
    if (by_nccl_[size])
      sizes += fmt::format("{}{} KiB", sizes.empty() ? ", by NCCL for " : ", ", (kMinBytes << size) >> 10);
  }
  return ", all-reduce by our own kernels" + sizes;
}

Status RankExchange::status() const {
  return started() ? GroupStatus(*comm_, peers_.memory(), messages_, "rank") : Status::Ok();
}

size_t RankExchange::SizeOf(int64_t bytes) {
  const auto units = static_cast<uint64_t>(std::max<int64_t>(1, (bytes + kMinBytes - 1) / kMinBytes));
  return std::min<size_t>(kSizes - 1, std::bit_width(units - 1));
}

void RankExchange::AllReduce(const Launcher& on, Tensor x, Tensor y, bool accumulate) {
  if (ByNccl(StorageBytes(options_.dtype, x.rows * x.cols))) return AllReduceByNccl(on, x, y, accumulate);
  LaunchAllReduce(on, peers_.links(), options_.dtype, x, y, accumulate);
}

bool RankExchange::AllReduceAddNorm(const Launcher& on, Tensor x, Tensor y, const FusedNorm& norm) {
  if (ByNccl(StorageBytes(options_.dtype, x.rows * x.cols)) || !CanFuseAllReduceNorm(y, norm)) return false;
  LaunchAllReduceAddNorm(on, peers_.links(), options_.dtype, x, y, norm);
  return true;
}

void RankExchange::AllReduceByNccl(const Launcher& on, Tensor x, Tensor y, bool accumulate) {
  const int64_t row_bytes = StorageBytes(options_.dtype, x.cols);
  if (!options_.fixed_order) {
    LaunchConvert(on, x, {options_.dtype, messages_.memory(), x.rows, x.cols, x.cols});
    messages_.nccl().AllReduceSum(messages_.memory(), x.rows * x.cols, options_.dtype);
    return LaunchSumMessages(WithoutOverlap(on), messages_.memory(), options_.dtype, 1, y, accumulate);
  }
  // All-gather and local reduction in rank order, as our own kernels do.
  const int64_t max_rows = kMessageBytes / (ranks() * row_bytes);
  CHECK_GT(max_rows, 0);
  for (int64_t first = 0; first < x.rows; first += max_rows) {
    const int64_t rows = std::min(max_rows, x.rows - first);
    auto* own = static_cast<std::byte*>(messages_.memory()) + comm_->rank() * rows * row_bytes;
    LaunchConvert(on, x.Rows(first, rows), {options_.dtype, own, rows, x.cols, x.cols});
    messages_.nccl().AllGather(messages_.memory(), static_cast<size_t>(rows * row_bytes));
    LaunchSumMessages(WithoutOverlap(on), messages_.memory(), options_.dtype, ranks(), y.Rows(first, rows), accumulate);
  }
}

void RankExchange::RmsNorm(const Launcher& on, Tensor x, const SharedNorm& norm, float* scratch) {
  std::vector<int64_t> borders(static_cast<size_t>(ranks()) + 1);
  std::iota(borders.begin(), borders.end(), int64_t{0});
  const Tensor sums{DType::kF32, scratch, x.rows, ranks(), ranks()};
  LaunchRowSquares(on, x, norm.counts, sums.Columns(comm_->rank(), 1));
  AllGatherColumns(on, borders.data(), sums);
  LaunchNormBySquares(on, x, sums, norm.columns, norm.weight, norm.eps);
}

void RankExchange::AllGatherColumns(const Launcher& on, const int64_t* borders, Tensor x) {
  if (reach_) return LaunchAllGatherColumns(on, peers_.links(), borders, x);
  int64_t widest = 1;
  for (int r = 0; r < ranks(); ++r) widest = std::max(widest, borders[r + 1] - borders[r]);
  const int64_t max_rows = kMessageBytes / (ranks() * StorageBytes(DType::kF32, widest));
  CHECK_GT(max_rows, 0);
  for (int64_t first = 0; first < x.rows; first += max_rows) {
    AllGatherByNccl(on, borders, widest, x.Rows(first, std::min(max_rows, x.rows - first)));
  }
}

void RankExchange::AllGatherByNccl(const Launcher& on, const int64_t* borders, int64_t widest, Tensor x) {
  const auto columns = [&](int r) { return x.Columns(borders[r], borders[r + 1] - borders[r]); };
  const auto part = [&](int r) { return static_cast<float*>(messages_.memory()) + r * x.rows * widest; };
  LaunchPackColumns(on, columns(comm_->rank()), part(comm_->rank()));
  messages_.nccl().AllGather(messages_.memory(), static_cast<size_t>(StorageBytes(DType::kF32, x.rows * widest)));
  for (int r = 0; r < ranks(); ++r) {
    if (r != comm_->rank()) LaunchUnpackColumns(WithoutOverlap(on), part(r), columns(r));
  }
}

void RankExchange::SampleGreedy(const Launcher& on, Tensor logits, int64_t first, SampledToken* sampled, int32_t* ids) {
  if (reach_) {
    LaunchPublishArgmax(on, peers_.links(), logits, first);
    return LaunchSampleGreedy(on, peers_.links(), logits.rows, sampled, ids);
  }
  const int64_t part = logits.rows * kArgmaxParts;
  CHECK_LE(part * ranks() * static_cast<int64_t>(sizeof(ArgmaxCandidate)), kMessageBytes);
  auto* message = static_cast<ArgmaxCandidate*>(messages_.memory());
  LaunchLocalArgmax(on, logits, first, message + comm_->rank() * part);
  messages_.nccl().AllGather(message, static_cast<size_t>(part) * sizeof(ArgmaxCandidate));
  LaunchSampleGreedy(WithoutOverlap(on), message, ranks(), logits.rows, sampled, ids);
}

}  // namespace ringside::cuda

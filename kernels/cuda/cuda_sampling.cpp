// Sampling: stages the sampling parameters of a step, with their lists, in one piece. The fixed-size rows come first,
// so that the addresses in a captured graph do not move when lists grow.
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

constexpr size_t kMaxListBytes = size_t{16} << 20;  // list bytes per launch; a launch has at least one row

size_t ListBytes(const RowSamplingParams& params) {
  return sizeof(BiasedId) * params.bias.size() + sizeof(CountedId) * params.counted.size() +
         sizeof(int32_t) * (params.repeated.size() + params.banned.size() + params.allowed.size());
}

/// Appends lists to staging memory.
class ListWriter {
 public:
  explicit ListWriter(Staging::Place place)
      : host_(static_cast<std::byte*>(place.host)), device_(static_cast<std::byte*>(place.device)) {}

  /// Copies `items` as T; returns their future device address.
  template <class T, class Items>
  const T* Write(const Items& items, int32_t* count) {
    const std::byte* at = device_;
    for (const auto& item : items) {
      const T value = As<T>(item);
      std::memcpy(host_, &value, sizeof value);
      host_ += sizeof value, device_ += sizeof value;
    }
    *count = static_cast<int32_t>(items.size());
    return reinterpret_cast<const T*>(at);
  }

 private:
  template <class T, class Item>
  static T As(const Item& item) {
    if constexpr (std::is_same_v<T, Item>) {
      return item;
    } else {
      return {item.first, item.second};
    }
  }

  std::byte *host_, *device_;
};

const DeviceSamplingParams* StageSamplingParams(std::span<const RowSamplingParams> row_params, StepRecorder* recorder) {
  size_t bytes = row_params.size() * sizeof(DeviceSamplingParams);
  for (const RowSamplingParams& params : row_params) bytes += ListBytes(params);
  const Staging::Place place = recorder->ReserveStaging(bytes);
  auto* row = static_cast<DeviceSamplingParams*>(place.host);
  const size_t rows_bytes = row_params.size() * sizeof(DeviceSamplingParams);
  ListWriter lists(
      {static_cast<std::byte*>(place.host) + rows_bytes, static_cast<std::byte*>(place.device) + rows_bytes});
  for (const RowSamplingParams& params : row_params) {
    DeviceSamplingParams out = {};
    out.bias = lists.Write<BiasedId>(params.bias, &out.biases);
    out.counted = lists.Write<CountedId>(params.counted, &out.counts);
    out.repeated = lists.Write<int32_t>(params.repeated, &out.repeats);
    out.banned = lists.Write<int32_t>(params.banned, &out.bans);
    int32_t words = 0;
    const auto* allowed = lists.Write<uint32_t>(params.allowed, &words);
    out.allowed = words > 0 ? allowed : nullptr;
    out.repetition_penalty = params.repetition_penalty;
    out.presence_penalty = params.presence_penalty;
    out.frequency_penalty = params.frequency_penalty;
    out.top_p = params.top_p;
    out.min_p = params.min_p;
    out.uniform = params.uniform;
    out.top_k = params.top_k;
    out.greedy = params.greedy();
    out.inverse_temperature = out.greedy ? 1.0f : params.inverse_temperature();
    out.logprobs = static_cast<int32_t>(params.logprobs);
    out.scored = params.scored;
    out.edits_logprobs = params.edits_logprobs;
    *row++ = out;
  }
  return static_cast<const DeviceSamplingParams*>(place.device);
}

}  // namespace

void CudaBackend::SampleTokens(Tensor logits, std::span<const RowSamplingParams> row_params,
                               std::span<SampledToken> sampled) {
  CHECK(logits.dtype == DType::kF32);
  CHECK_EQ(logits.rows, static_cast<int64_t>(row_params.size()));
  CHECK_EQ(row_params.size(), sampled.size());
  CHECK(logits.cols > 0 && logits.cols < INT32_MAX / 2);
  for (const RowSamplingParams& params : row_params) {
    CHECK(params.allowed.empty() || static_cast<int64_t>(params.allowed.size()) * 32 >= logits.cols);
  }
  for (size_t first = 0; first < row_params.size();) {
    size_t count = 1, bytes = ListBytes(row_params[first]);
    while (first + count < row_params.size() && (bytes += ListBytes(row_params[first + count])) <= kMaxListBytes)
      ++count;
    const Tensor rows = logits.Rows(static_cast<int64_t>(first), static_cast<int64_t>(count));
    StepOp op{.kind = OpKind::kSampleTokens, .x = rows};
    op.sampled =
        reinterpret_cast<SampledToken*>(recorder_.StageReadback(&sampled[first], count * sizeof(SampledToken)));
    op.row_params = StageSamplingParams(row_params.subspan(first, count), &recorder_);
    op.sampled_ids = sampled_.Next(recorder_.submission_epoch(), rows.rows);
    recorder_.Record(op, rows.rows);
    first += count;
  }
}

void CudaBackend::SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> sampled) {
  CHECK(logits.dtype == DType::kF32 && exchange_.started());
  CHECK_EQ(logits.rows, std::ssize(sampled));
  CHECK(logits.rows > 0 && logits.cols > 0 && first + logits.cols < INT32_MAX / 2);
  StepOp op{.kind = OpKind::kSampleGreedy, .x = logits, .first_token = first};
  op.sampled = reinterpret_cast<SampledToken*>(recorder_.StageReadback(sampled.data(), sampled.size_bytes()));
  op.sampled_ids = sampled_.Next(recorder_.submission_epoch(), logits.rows);
  recorder_.Record(op, logits.rows);
}

}  // namespace ringside::cuda

// Sampling: stages the sampling parameters of a step, with their lists, in one piece. The fixed-size rows come first,
// so that the addresses in a captured graph do not move when lists grow.
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

constexpr size_t kMostListBytes = size_t{16} << 20;  // list bytes per launch; a launch has at least one row

size_t ListBytes(const TokenChoice& choice) {
  return sizeof(BiasedId) * choice.bias.size() + sizeof(CountedId) * choice.counted.size() +
         sizeof(int32_t) * (choice.repeated.size() + choice.banned.size() + choice.allowed.size());
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

}  // namespace

const ChoiceRow* CudaBackend::StageChoices(std::span<const TokenChoice> choices) {
  size_t bytes = choices.size() * sizeof(ChoiceRow);
  for (const TokenChoice& choice : choices) bytes += ListBytes(choice);
  const Staging::Place place = StageRoom(bytes);
  auto* row = static_cast<ChoiceRow*>(place.host);
  const size_t rows_bytes = choices.size() * sizeof(ChoiceRow);
  ListWriter lists(
      {static_cast<std::byte*>(place.host) + rows_bytes, static_cast<std::byte*>(place.device) + rows_bytes});
  for (const TokenChoice& choice : choices) {
    ChoiceRow out = {};
    out.bias = lists.Write<BiasedId>(choice.bias, &out.biases);
    out.counted = lists.Write<CountedId>(choice.counted, &out.counts);
    out.repeated = lists.Write<int32_t>(choice.repeated, &out.repeats);
    out.banned = lists.Write<int32_t>(choice.banned, &out.bans);
    int32_t words = 0;
    const auto* allowed = lists.Write<uint32_t>(choice.allowed, &words);
    out.allowed = words > 0 ? allowed : nullptr;
    out.repetition_penalty = choice.repetition_penalty;
    out.presence_penalty = choice.presence_penalty;
    out.frequency_penalty = choice.frequency_penalty;
    out.top_p = choice.top_p;
    out.min_p = choice.min_p;
    out.uniform = choice.uniform;
    out.top_k = choice.top_k;
    out.greedy = choice.greedy();
    out.inverse_temperature = out.greedy ? 1.0f : choice.inverse_temperature();
    out.logprobs = static_cast<int32_t>(choice.logprobs);
    out.scored = choice.scored;
    out.edits_logprobs = choice.edits_logprobs;
    *row++ = out;
  }
  return static_cast<const ChoiceRow*>(place.device);
}

void CudaBackend::ChooseTokens(Tensor logits, std::span<const TokenChoice> choices, std::span<ChosenToken> chosen) {
  CHECK(logits.dtype == DType::kF32);
  CHECK_EQ(logits.rows, static_cast<int64_t>(choices.size()));
  CHECK_EQ(choices.size(), chosen.size());
  CHECK(logits.cols > 0 && logits.cols < INT32_MAX / 2);
  for (const TokenChoice& choice : choices) {
    CHECK(choice.allowed.empty() || static_cast<int64_t>(choice.allowed.size()) * 32 >= logits.cols);
  }
  for (size_t first = 0; first < choices.size();) {
    size_t count = 1, bytes = ListBytes(choices[first]);
    while (first + count < choices.size() && (bytes += ListBytes(choices[first + count])) <= kMostListBytes) ++count;
    const Tensor rows = logits.Rows(static_cast<int64_t>(first), static_cast<int64_t>(count));
    StepOp op{.kind = OpKind::kChooseTokens, .x = rows};
    op.chosen = reinterpret_cast<ChosenToken*>(Land(&chosen[first], count * sizeof(ChosenToken)));
    op.choices = StageChoices(choices.subspan(first, count));
    CHECK_LE(chosen_rows_ + rows.rows, kMostChosenRows);
    op.chosen_ids = chosen_ids_ + chosen_rows_;
    chosen_rows_ += rows.rows;
    Record(op, rows.rows);
    first += count;
  }
}

void CudaBackend::ChooseHighest(Tensor logits, int64_t first, std::span<ChosenToken> chosen) {
  CHECK(logits.dtype == DType::kF32 && exchange_.started());
  CHECK_EQ(logits.rows, std::ssize(chosen));
  CHECK(logits.rows > 0 && logits.cols > 0 && first + logits.cols < INT32_MAX / 2);
  StepOp op{.kind = OpKind::kChooseHighest, .x = logits, .first_token = first};
  op.chosen = reinterpret_cast<ChosenToken*>(Land(chosen.data(), chosen.size_bytes()));
  CHECK_LE(chosen_rows_ + logits.rows, kMostChosenRows);
  op.chosen_ids = chosen_ids_ + chosen_rows_;
  chosen_rows_ += logits.rows;
  Record(op, logits.rows);
}

}  // namespace ringside::cuda

#include "engine/model/ranks/rank_messages.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/limits.h"

namespace ringside {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 48, kMostTiles = int64_t{1} << 26, kMaxSlots = 1 << 12;
constexpr auto kLastKind = RankCallKind::kLoad;

uint64_t AddressOf(const void* data) { return reinterpret_cast<uint64_t>(data); }

void PutShape(ByteWriter& out, const KvShape& shape) {
  for (const int64_t size : {shape.layers, shape.kv_heads, shape.head_dim, shape.pinned_tiles, shape.ring_tiles}) {
    out.Unsigned(static_cast<uint64_t>(size));
  }
  out.Byte(static_cast<uint8_t>(shape.dtype));
  out.Unsigned(static_cast<uint64_t>(shape.state.slots));
}

void PutChoice(ByteWriter& out, const RowSamplingParams& choice) {
  const auto ids = [&](std::span<const int32_t> all) {
    out.Unsigned(all.size());
    for (const int32_t id : all) out.Signed(id);
  };
  ids(choice.banned);
  ids(choice.repeated);
  out.String({reinterpret_cast<const char*>(choice.allowed.data()), choice.allowed.size_bytes()});
  out.Unsigned(choice.bias.size());
  for (const auto& [id, bias] : choice.bias) {
    out.Signed(id);
    out.Double(bias);
  }
  out.Unsigned(choice.counted.size());
  for (const auto& [id, count] : choice.counted) {
    out.Signed(id);
    out.Signed(count);
  }
  for (const double number : {choice.repetition_penalty, choice.presence_penalty, choice.frequency_penalty,
                              choice.temperature, choice.top_p, choice.min_p, choice.uniform}) {
    out.Double(number);
  }
  out.Signed(choice.top_k);
  out.Signed(choice.scored);
  out.Signed(choice.logprobs);
  out.Byte(choice.edits_logprobs ? 1 : 0);
}

/// Parses one call; sound() is true if everything in it is valid.
class CallReader {
 public:
  CallReader(std::string_view bytes, const ModelSpec& own) : in_(bytes), own_(own) {}

  void Read(RankCall* call) {
    call->kind = in_.Enum(kLastKind);
    switch (call->kind) {
      case RankCallKind::kRun:
        return ReadPlan(&call->plan);
      case RankCallKind::kChoose:
      case RankCallKind::kChooseKept:
        return ReadChoices(call);
      case RankCallKind::kSave:
      case RankCallKind::kLoad:
        return ReadCopy(call);
      default:
        call->count = Number(std::numeric_limits<int64_t>::max());
        call->address = in_.Fixed64();
        call->from = in_.Fixed64();
    }
  }
  bool sound() const { return sound_ && in_.done(); }

 private:
  int64_t Number(int64_t most) {
    const uint64_t number = in_.Unsigned();
    Require(number <= static_cast<uint64_t>(most));
    return sound_ ? static_cast<int64_t>(number) : 0;
  }
  int32_t Id() {
    const int64_t id = in_.Signed();
    Require(id >= 0 && id < own_.vocab);
    return sound_ ? static_cast<int32_t>(id) : 0;
  }
  void Require(bool holds) { sound_ = sound_ && holds; }

  void ReadShape(KvShape* shape) {
    for (int64_t* size : {&shape->layers, &shape->kv_heads, &shape->head_dim}) *size = Number(kMostTiles);
    for (int64_t* size : {&shape->pinned_tiles, &shape->ring_tiles}) *size = Number(kMostTiles);
    shape->dtype = in_.Enum(DType::kF8E4M3);
    const auto types = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};
    Require(std::ranges::find(types, shape->dtype) != types.end() && shape->ring_tiles > 0);
    shape->latent_dim = own_.latent.rank;
    shape->varied = own_.varied_layers();
    shape->state = own_.state();
    shape->state.slots = Number(kMaxSlots);
    Require(shape->layers == own_.attention_layers() && shape->kv_heads == own_.kv_heads &&
            shape->head_dim == own_.head_dim);
  }

  void ReadPlan(StepPlan* plan) {
    for (auto* rows : {&plan->positions, &plan->first_live, &plan->pinned_positions, &plan->wanted_rows}) rows->clear();
    plan->ids.clear();
    plan->segments.clear();
    plan->state_writes.clear();
    state_ends_.clear();
    ReadShape(&plan->shape);
    for (size_t left = in_.Count(); left > 0 && sound_; --left) ReadSegment(plan);
    plan->PointSegments(state_ends_);
    for (size_t left = in_.Count(); left > 0 && sound_; --left) {
      plan->wanted_rows.push_back(Number(plan->rows() - 1));
    }
    Require(!plan->segments.empty());
  }

  void ReadSegment(StepPlan* plan) {
    AttentionSegment segment{.first_row = plan->rows()};
    segment.position = Number(own_.learned_positions ? own_.trained_context : kMaxPositions);
    segment.pinned = Number(plan->shape.pinned_capacity());
    segment.slab = reinterpret_cast<void*>(in_.Fixed64());
    segment.rows = static_cast<int64_t>(in_.Count(3));
    Require(segment.rows > 0 && segment.rows <= plan->shape.ring_rows() + segment.pinned);
    Require(!own_.learned_positions || segment.position + segment.rows <= own_.trained_context);
    int64_t first_live = 0, behind = 0;
    for (int64_t t = segment.position; t < segment.position + segment.rows && sound_; ++t) {
      const int64_t id = in_.Signed();
      Require(id < own_.vocab && id >= std::numeric_limits<TokenId>::min());
      first_live += in_.Signed();
      behind += in_.Signed();
      Require(first_live >= segment.pinned && first_live <= std::max(t, segment.pinned));
      Require(first_live > t - plan->shape.ring_rows() && behind >= 0 && behind <= t);
      plan->ids.push_back(static_cast<TokenId>(id));
      plan->positions.push_back(t);
      plan->first_live.push_back(first_live);
      plan->pinned_positions.push_back(t - behind);
    }
    ReadState(&segment, plan);
    plan->segments.push_back(segment);
  }

  /// The segment's boundaries, as every device requires them.
  void ReadState(AttentionSegment* segment, StepPlan* plan) {
    const int64_t slots = plan->shape.state.slots, slot = in_.Signed();
    Require(slot >= -1 && slot < slots);
    Require(!own_.recurrent() || slot >= 0 || segment->position < StateShape::kChunk);
    segment->state_slot = sound_ ? static_cast<int>(slot) : -1;
    const int64_t end = segment->position + segment->rows;
    int64_t last = StateShape::BoundaryBefore(segment->position);
    for (size_t left = in_.Count(2); left > 0 && sound_; --left) {
      const int64_t position = last + (1 + Number(kMaxPositions)) * StateShape::kChunk, to = Number(kMaxSlots);
      Require(position <= end && to < slots && to != slot);
      plan->state_writes.push_back({position, static_cast<int>(to)});
      last = position;
    }
    Require(!own_.recurrent() || last == StateShape::BoundaryBefore(end));
    state_ends_.push_back(plan->state_writes.size());
  }

  void ReadChoices(RankCall* call) {
    call->choices.clear();
    call->borrowed.assign(in_.Count(64), {});
    for (RankCall::Borrowed& borrowed : call->borrowed) call->choices.push_back(ReadChoice(&borrowed));
  }

  RowSamplingParams ReadChoice(RankCall::Borrowed* borrowed) {
    for (std::vector<int32_t>* ids : {&borrowed->banned, &borrowed->repeated}) {
      for (size_t left = in_.Count(); left > 0 && sound_; --left) ids->push_back(Id());
    }
    const std::string_view words = in_.View();
    Require(words.size() % sizeof(uint32_t) == 0);
    borrowed->allowed.resize(words.size() / sizeof(uint32_t));
    if (!borrowed->allowed.empty()) {  // else both are null
      std::memcpy(borrowed->allowed.data(), words.data(), borrowed->allowed.size() * sizeof(uint32_t));
    }
    Require(words.empty() || static_cast<int64_t>(borrowed->allowed.size()) == (own_.vocab + 31) / 32);
    for (size_t left = in_.Count(9); left > 0 && sound_; --left) {
      const int32_t id = Id();
      borrowed->bias.emplace_back(id, static_cast<float>(in_.Double()));
    }
    for (size_t left = in_.Count(2); left > 0 && sound_; --left) {
      const int32_t id = Id();
      borrowed->counted.emplace_back(id, static_cast<int32_t>(in_.Signed()));
    }
    RowSamplingParams choice{.banned = borrowed->banned,
                             .allowed = borrowed->allowed,
                             .bias = borrowed->bias,
                             .repeated = borrowed->repeated,
                             .counted = borrowed->counted};
    for (double* number : {&choice.repetition_penalty, &choice.presence_penalty, &choice.frequency_penalty,
                           &choice.temperature, &choice.top_p, &choice.min_p, &choice.uniform}) {
      *number = in_.Double();
    }
    choice.top_k = in_.Signed();
    const int64_t scored = in_.Signed();
    Require(scored >= -1 && scored < own_.vocab);
    choice.scored = sound_ ? static_cast<int32_t>(scored) : -1;
    choice.logprobs = in_.Signed();
    Require(choice.logprobs >= -1 && choice.logprobs <= limits::kMaxBestTokens);
    const uint8_t edits_logprobs = in_.Byte();
    Require(edits_logprobs <= 1);
    choice.edits_logprobs = edits_logprobs == 1;
    return choice;
  }

  void ReadCopy(RankCall* call) {
    ReadShape(&call->shape);
    call->address = in_.Fixed64();
    call->runs.clear();
    const int64_t all = sound_ ? call->shape.slab_bytes() : 0, tiles = sound_ ? call->shape.TileBegin(0) : 0,
                  tile = std::max<int64_t>(1, sound_ ? call->shape.tile_bytes() : 1);
    for (size_t left = in_.Count(4); left > 0 && sound_; --left) {
      SlabRun run{.offset = Number(all)};
      run.bytes = Number(all - run.offset);
      run.count = Number(all);
      run.stride = Number(all);
      if (run.stride > 0) {
        const int64_t rest = all - run.offset - run.bytes;
        Require(run.bytes > 0 && run.bytes <= run.stride && run.count > 0 && run.count - 1 <= rest / run.stride);
      } else if (run.offset < tiles) {
        Require(run.count == 1 && run.offset + run.bytes <= tiles);
      } else {
        Require(run.count == 1 && (run.offset - tiles) % tile == 0 && run.bytes % tile == 0);
      }
      call->runs.push_back(run);
    }
  }

  std::vector<size_t> state_ends_;  // of each segment in the plan's state writes
  ByteReader in_;
  const ModelSpec& own_;
  bool sound_ = true;
};

}  // namespace

std::string EncodeCall(RankCallKind kind, int64_t count, const void* address, const void* from) {
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(kind));
  out.Unsigned(static_cast<uint64_t>(count));
  out.Fixed64(AddressOf(address));
  out.Fixed64(AddressOf(from));
  return out.Take();
}

std::string EncodeRun(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) {
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(RankCallKind::kRun));
  PutShape(out, shape);
  out.Unsigned(segments.size());
  for (const AttentionSegment& segment : segments) {
    out.Unsigned(static_cast<uint64_t>(segment.position));
    out.Unsigned(static_cast<uint64_t>(segment.pinned));
    out.Fixed64(AddressOf(segment.slab));
    out.Unsigned(static_cast<uint64_t>(segment.rows));
    // Delta encoding: between rows the values change little.
    int64_t first_live = 0, behind = 0;
    for (int64_t r = segment.first_row; r < segment.first_row + segment.rows; ++r) {
      const auto row = static_cast<size_t>(r);
      out.Signed(plan.ids[row]);
      out.Signed(plan.first_live[row] - std::exchange(first_live, plan.first_live[row]));
      const int64_t now = plan.positions[row] - plan.pinned_positions[row];
      out.Signed(now - std::exchange(behind, now));
    }
    out.Signed(segment.state_slot);
    out.Unsigned(segment.state_writes.size());
    int64_t last = StateShape::BoundaryBefore(segment.position);
    for (const StateWrite& write : segment.state_writes) {
      out.Unsigned(static_cast<uint64_t>((write.position - last) / StateShape::kChunk - 1));
      out.Unsigned(static_cast<uint64_t>(write.slot));
      last = write.position;
    }
  }
  out.Unsigned(plan.wanted_rows.size());
  for (const int64_t row : plan.wanted_rows) out.Unsigned(static_cast<uint64_t>(row));
  return out.Take();
}

std::string EncodeChoices(RankCallKind kind, std::span<const RowSamplingParams> choices) {
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(kind));
  out.Unsigned(choices.size());
  for (const RowSamplingParams& choice : choices) PutChoice(out, choice);
  return out.Take();
}

std::string EncodeCopy(RankCallKind kind, const KvShape& shape, const void* slab, std::span<const SlabRun> runs) {
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(kind));
  PutShape(out, shape);
  out.Fixed64(AddressOf(slab));
  out.Unsigned(runs.size());
  for (const SlabRun& run : runs) {
    for (const int64_t number : {run.offset, run.bytes, run.count, run.stride}) {
      out.Unsigned(static_cast<uint64_t>(number));
    }
  }
  return out.Take();
}

Status DecodeCall(std::string_view bytes, const ModelSpec& own, RankCall* call) {
  CallReader reader(bytes, own);
  reader.Read(call);
  return reader.sound() ? Status::Ok() : Corruption("malformed call from the first process");
}

std::string EncodeAnswer(const Result<uint64_t>& answer) {
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(answer.status().code()));
  out.String(answer.status().message());
  out.Unsigned(answer.ok() ? *answer : 0);
  return out.Take();
}

Result<uint64_t> DecodeAnswer(std::string_view bytes) {
  ByteReader in(bytes);
  const StatusCode code = in.Enum(StatusCode::kUnavailable);
  std::string message = in.String();
  const uint64_t number = in.Unsigned();
  if (!in.done()) return Corruption("malformed answer from a rank");
  if (code != StatusCode::kOk) return Status(code, std::move(message));
  return number;
}

}  // namespace ringside

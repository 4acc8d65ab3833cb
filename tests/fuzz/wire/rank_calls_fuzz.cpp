// The first process's calls to a rank in another one: parsed, and if valid encoded to the same bytes. Input: one call;
// and one answer.
#include <algorithm>

#include "engine/model/ranks/rank_messages.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

/// A network with a recurrent layer.
ModelSpec Spec() {
  ModelSpec spec;
  spec.layers = 3, spec.heads = 4, spec.kv_heads = 2, spec.head_dim = 8, spec.vocab = 100;
  spec.recurrence = {
      .mixer = Mixer::kDeltaNet, .key_heads = 1, .value_heads = 2, .key_size = 8, .value_size = 16, .kernel = 4};
  spec.layer_traits.resize(3);
  spec.layer_traits[1].mixer = Mixer::kDeltaNet;
  return spec;
}

KvShape Shape() {
  KvShape shape{2, 2, 8, DType::kF16, 1, 4};
  shape.state = Spec().state();
  shape.state.slots = 2;
  return shape;
}

constexpr StateWrite kWrites[] = {{128, 0}};

/// Three sequences; the second one has evicted tokens, the third one stores a state.
StepPlan Plan() {
  StepPlan plan{.shape = Shape()};
  plan.ids = {5, 99, -1, 3, 1, 2};
  plan.positions = {0, 1, 100, 101, 127, 128};
  plan.pinned_positions = {0, 1, 52, 53, 80, 81};
  plan.first_live = {4, 4, 52, 52, 80, 80};
  plan.wanted_rows = {1, 3};
  for (const int64_t first : {0, 2, 4}) {
    plan.segments.push_back({.first_row = first,
                             .rows = 2,
                             .position = plan.positions[static_cast<size_t>(first)],
                             .pinned = 4,
                             .first_live = plan.first_live.data() + first,
                             .slab = reinterpret_cast<void*>(0x7000'0000'0000),
                             .state_slot = first > 0 ? 1 : -1});
  }
  plan.segments.back().state_writes = kWrites;
  return plan;
}

void CheckPlan(const StepPlan& plan) {
  int64_t rows = 0;
  for (const AttentionSegment& segment : plan.segments) {
    Require(segment.first_row == rows && segment.rows > 0, "rows of a step follow one another");
    rows += segment.rows;
    for (int64_t r = 0; r < segment.rows; ++r) {
      const int64_t t = segment.position + r;
      Require(segment.first_live[r] >= segment.pinned && segment.first_live[r] <= std::max(t, segment.pinned),
              "what a row sees is there");
    }
    for (const StateWrite& write : segment.state_writes) {
      Require(write.slot >= 0 && write.slot < plan.shape.state.slots && write.slot != segment.state_slot,
              "a state is stored in a slot that the step does not read");
    }
  }
  Require(rows == plan.rows() && rows == std::ssize(plan.pinned_positions), "a step has all of every row");
  for (const TokenId id : plan.ids) Require(id < Spec().vocab, "ids are the vocabulary's");
  for (const int64_t row : plan.wanted_rows) Require(row >= 0 && row < rows, "wanted rows are there");
}

std::string Encode(const RankCall& call) {
  switch (call.kind) {
    case RankCallKind::kRun:
      return EncodeRun(call.plan, call.plan.shape, call.plan.segments);
    case RankCallKind::kChoose:
    case RankCallKind::kChooseKept:
      return EncodeChoices(call.kind, call.choices);
    case RankCallKind::kSave:
    case RankCallKind::kLoad:
      return EncodeCopy(call.kind, call.shape, reinterpret_cast<void*>(call.address), call.runs);
    default:
      return EncodeCall(call.kind, call.count, reinterpret_cast<void*>(call.address),
                        reinterpret_cast<void*>(call.from));
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  const StepPlan plan = Plan();
  const int32_t ids[] = {1, 2, 99};
  const uint32_t allowed[] = {0xffffffff, 1, 0, 8};
  const std::pair<int32_t, float> bias[] = {{3, -1.5f}};
  const std::pair<int32_t, int32_t> counted[] = {{4, 2}};
  const RowSamplingParams choices[] = {
      {.temperature = 0, .scored = 7},
      {.banned = ids, .allowed = allowed, .bias = bias, .repeated = ids, .counted = counted, .logprobs = 3}};
  const KvShape shape = Shape();
  const SlabRun runs[] = {{.offset = shape.TileBegin(0), .bytes = shape.tile_bytes()},
                          {.offset = shape.TileBegin(2), .bytes = 3 * shape.tile_bytes()},
                          {.offset = 64, .bytes = 128},
                          {.offset = shape.TileBegin(1), .bytes = 16, .count = 3, .stride = shape.tile_bytes()}};
  return {EncodeCall(RankCallKind::kReserve, 300),
          EncodeCall(RankCallKind::kCopyOnDevice, 4096, &plan, ids),
          EncodeRun(plan, plan.shape, plan.segments),
          EncodeChoices(RankCallKind::kChoose, choices),
          EncodeCopy(RankCallKind::kSave, shape, &plan, runs),
          EncodeAnswer(uint64_t{1} << 40),
          EncodeAnswer(Overloaded("no memory"))};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)DecodeAnswer(bytes);
  static const ModelSpec spec = Spec();
  RankCall call, again;
  if (!DecodeCall(bytes, spec, &call).ok()) return 0;
  if (call.kind == RankCallKind::kRun) CheckPlan(call.plan);
  const std::string written = Encode(call);
  Require(DecodeCall(written, spec, &again).ok() && Encode(again) == written, "a call is what it was");
  return 0;
}

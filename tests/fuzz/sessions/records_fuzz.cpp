// The content of journals and exports, decoder by decoder. Input: the decoder, then the bytes. A decoded value is
// encoded to bytes that decode to the same value.
#include "cache/store/sealed_object.h"
#include "session/journal/journal_format.h"
#include "session/journal/journal_keys.h"
#include "session/records.h"
#include "session/share.h"
#include "session/table/portable_session.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

/// `decode` maps bytes to a value, `encode` the value to bytes.
template <class Decode, class Encode>
void RoundTrip(std::string_view bytes, const Decode& decode, const Encode& encode) {
  const auto value = decode(bytes);
  if (!value.ok()) return;
  const std::string once = encode(*value);
  const auto again = decode(std::string_view(once));
  Require(again.ok() && encode(*again) == once, "what was read can be written and read");
}

constexpr auto kPayload = [](const auto& record) { return Encode(record).payload; };

void DecodeAsRecord(size_t kind, std::string_view bytes) {
  switch (kind) {
    case 0:
      return RoundTrip(bytes, DecodeCreated, kPayload);
    case 1:
      return RoundTrip(bytes, DecodeMetadata, [](const Metadata& value) { return EncodeMetadata(value).payload; });
    case 2:
      (void)DecodeImportedTimeline(bytes, 100);
      return RoundTrip(bytes, DecodeTimeline, kPayload);
    case 3:
      return RoundTrip(bytes, DecodeTurn, kPayload);
    case 4:
      return RoundTrip(bytes, DecodeStarted, [](const CacheReport& value) { return EncodeStarted(value).payload; });
    case 5:
      return RoundTrip(bytes, DecodeTokens, [](const TokensRecord& value) { return Encode(value, true).payload; });
    case 6:
      return RoundTrip(bytes, DecodeEnd, kPayload);
    case 7:
      return RoundTrip(bytes, DecodeAttached, kPayload);
    case 8:
      return RoundTrip(bytes, DecodeName,
                       [](const std::string& value) { return EncodeName(RecordType::kForgotten, value).payload; });
    case 9:
      return RoundTrip(bytes, DecodeInterrupted, kPayload);
    case 10:
      return RoundTrip(bytes, DecodeShared, [](const Share& value) { return EncodeShared(value).payload; });
    default:
      return RoundTrip(bytes, DecodeSummary, [](const SessionSummary& value) { return Encode(value); });
  }
}

/// As a row of the journal's database, and as sealed bytes.
void DecodeAsStored(std::string_view bytes) {
  namespace format = journal_format;
  if (const auto key = format::ParseSessionKey(bytes)) (void)format::ParseSeq(key->rest);
  (void)format::DecodeHead("key", bytes);
  (void)format::DecodeSummary("key", bytes);
  (void)format::DecodeRecord(bytes);
  (void)format::DecodeNumber(bytes);
  const SealKey key(std::string(kSealKeyBytes, 'k'));
  Require(!LoadPayload(key, "s", 1, 2, bytes).ok() && !LoadSummary(key, "s", bytes).ok() &&
              !OpenManifest(key, "s", std::string(bytes)).ok(),
          "nobody seals without the key");
  const std::string codec = "codec";
  Require(!DecodePortable(bytes, {key, false, codec, 100}).ok(), "nobody exports without the key");
  (void)DecodePortable(bytes, {key, true, codec, 100});
}

}  // namespace

std::vector<std::string> Seeds() {
  TimelineRecord timeline;
  timeline.patch.items = {{.id = "msg_1", .text = "Hi", .token_begin = 0, .token_end = 3},
                          {.id = "msg_2",
                           .role = ChatRole::kAssistant,
                           .text = "Yo\n<tool_call>",
                           .calls_at = 2,
                           .call_ids = "c\n",
                           .complete = false,
                           .sampled = true,
                           .token_begin = 3,
                           .token_end = 5},
                          {.id = "msg_3", .role = ChatRole::kTool, .text = "42", .call_ids = "c"}};
  timeline.patch.tokens = {1, 2, 3, 300, 70000};
  timeline.patch.message_starts = {0, 3};
  timeline.patch.instructions = "Be brief.";
  timeline.patch.tools = "{}";
  TurnRecord turn;
  turn.response_id = "resp_1";
  turn.echo = "{}";
  turn.patch = timeline.patch;
  turn.calls = CallPlace::kAny;
  turn.syntax = ToolSyntaxName::kMistral;
  turn.sampling.logit_bias = {{5, -100.0F}};
  TokensRecord tokens{{{7, -0.5F, {{1, -1.0F}, {2, -2.0F}}}, {8, -0.25F, {}}}, "Yo"};
  EndRecord end;
  end.tail = {257};
  end.stop_string = "x";
  end.error = Overloaded("no");
  const CreatedRecord created{.owner = "me",
                              .created_at = 1,
                              .metadata = {{"k", "v"}},
                              .window = {64, 128, Eviction::kToken},
                              .epoch = 2,
                              .codec = "codec"};
  const std::string payloads[] = {Encode(created).payload,
                                  EncodeMetadata(created.metadata).payload,
                                  Encode(timeline).payload,
                                  Encode(turn).payload,
                                  EncodeStarted({}).payload,
                                  Encode(tokens, true).payload,
                                  Encode(end).payload,
                                  Encode(AttachedRecord{3}).payload,
                                  EncodeName(RecordType::kForgotten, "resp_1").payload,
                                  Encode(InterruptedRecord{Unavailable("rank 1 is lost")}).payload,
                                  EncodeShared({"share_1", DigestShareSecret("x"), 1, 2}).payload,
                                  Encode(SessionSummary{"me", 1, 2})};
  std::vector<std::string> seeds;
  for (const std::string& payload : payloads) seeds.push_back(static_cast<char>(seeds.size()) + payload);
  namespace format = journal_format;
  const SealKey key(std::string(32, 'o'));  // another server's
  for (const std::string& stored :
       {format::EncodeHead("key", {{1, {2, 3}}, 4}), format::EncodeSummary("key", payloads[11]),
        format::EncodeRecord({3, payloads[2]}, {1, 2}), format::RecordKey("conv_1", 7), format::SummaryKey("conv_1"),
        EncodePortable(key, created, timeline)}) {
    seeds.push_back('\x0c' + stored);
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] < 12 ? DecodeAsRecord(data[0], bytes) : DecodeAsStored(bytes);
  return 0;
}

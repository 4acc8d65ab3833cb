// Imports of conversations forged by their sender, sealed with the right key; and every verb on the imported
// conversation. Input: "created" record, "timeline" record, changes of the latter, verbs.
#include <cstddef>
#include <iterator>

#include "base/bytes.h"
#include "base/hmac.h"
#include "session/journal/journal_format.h"
#include "session/records.h"
#include "session/tools/answer_form.h"
#include "tests/fuzz/sessions/table_user.h"

namespace ringside {
namespace {

constexpr std::string_view kMagic = "ringside session 2\n";

std::string SealExport(std::string_view created, std::string_view timeline) {
  ByteWriter payloads;
  payloads.String(created);
  payloads.String(timeline);
  const std::string content = std::string(kMagic) + payloads.Take();
  ByteWriter check;
  check.Fixed64(journal_format::Checksum(content, {}));
  const std::string sealed = content + check.Take();
  return sealed + HmacSha256(TableUser::Options().export_key, sealed);
}

/// The records of a conversation.
std::vector<std::string> Export(TableUser& user, const std::string& conversation) {
  const std::string bytes = user.table().ExportSession(user.me, conversation).value();
  ByteReader in(std::string_view(bytes).substr(kMagic.size()));
  const std::string created = in.String(), timeline = in.String();
  return {created, FixedIds().Replace(timeline)};
}

constexpr int64_t kNumbers[] = {-1, 0, 1, 2, -2, 7, 1 << 20, INT64_MAX, INT64_MIN};

/// Applies one change that makes the ids wrong, or may do so.
void Change(TimelinePatch& patch, Choices& choices) {
  const int64_t number = kNumbers[choices.Below(std::size(kNumbers))];
  const size_t at = patch.items.empty() ? 0 : choices.Below(patch.items.size());
  switch (patch.items.empty() ? 6 : choices.Below(11)) {
    case 0:
    case 1:  // as if not rendered yet from there on
      for (size_t i = at; i < patch.items.size(); ++i) patch.items[i].token_begin = patch.items[i].token_end = -1;
      return;
    case 2:
      patch.items[at].token_begin = number;
      return;
    case 3:
      patch.items[at].token_end = number;
      return;
    case 4:
      patch.items[at].sampled = !patch.items[at].sampled;
      return;
    case 5:
      patch.items[at].complete = !patch.items[at].complete;
      return;
    case 6:
      (choices.Coin() ? patch.pinned : patch.answer_begin) = number;
      return;
    case 7:
      return patch.message_starts.push_back(number);
    case 8:
      patch.items[at].form = Encode(AnswerForm{
          {.kind = static_cast<AnswerFormat::Kind>(choices.Below(6)), .text = choices.Coin() ? "{}" : "[a-z]*"},
          {.mode = static_cast<ToolChoice::Mode>(choices.Below(4)), .names = {"f"}}});
      return;
    case 9:
      return patch.tokens.resize(patch.tokens.size() / 2);
    default:
      patch.items.erase(patch.items.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

std::string Changed(std::string_view timeline, Choices choices) {
  Result<TimelineRecord> record = DecodeTimeline(timeline);
  if (!record.ok() || choices.done()) return std::string(timeline);
  for (int i = 0; i < 4 && !choices.done(); ++i) Change(record->patch, choices);
  return Encode(*record).payload;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::mt19937 random;
  std::vector<std::string> seeds;
  for (int i = 0; i < 24; ++i) {
    TableUser user;
    user.Meet(user.table().CreateSession(user.me, {{"topic", "x"}}, {}, {{ChatRole::kUser, "Hello"}})->id);
    user.RunVerbs(Choices(AnyVerbs(random)));
    for (const std::string& id : user.conversations()) {
      if (!user.table().GetSession(user.me, id).ok()) continue;  // a verb has deleted it
      std::vector<std::string> parts = Export(user, id);
      parts.push_back(AnyVerbs(random).substr(0, random() % 6));
      parts.push_back(AnyVerbs(random));
      seeds.push_back(JoinParts(parts));
    }
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const auto parts = SplitParts(data, size, 4);
  Choices choices(parts[3]);
  TableUser user(choices.Coin() ? &TableUser::MemoryJournal() : nullptr);
  const Result<SessionInfo> info =
      user.table().ImportSession(user.me, SealExport(parts[0], Changed(parts[1], Choices(parts[2]))));
  if (!info.ok()) {
    Require(info.status().code() == StatusCode::kInvalidArgument, info.status().ToString());
    return 0;
  }
  user.Meet(info->id);
  user.RunVerbs(choices);
  return 0;
}

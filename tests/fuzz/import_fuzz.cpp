// Imports of conversations that their sender made himself, sealed with the right key; and every verb on what came in.
// Input: "created" record, "timeline" record, verbs.
#include "base/bytes.h"
#include "base/hmac.h"
#include "session/journal/journal_format.h"
#include "session/records.h"
#include "tests/fuzz/table_user.h"

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
      parts.push_back(AnyVerbs(random));
      seeds.push_back(JoinParts(parts));
    }
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const auto parts = SplitParts(data, size, 3);
  Choices choices(parts[2]);
  TableUser user(choices.Coin() ? &TableUser::MemoryJournal() : nullptr);
  const Result<SessionInfo> info = user.table().ImportSession(user.me, SealExport(parts[0], parts[1]));
  if (!info.ok()) {
    Require(info.status().code() == StatusCode::kInvalidArgument, info.status().ToString());
    return 0;
  }
  user.Meet(info->id);
  user.RunVerbs(choices);
  return 0;
}

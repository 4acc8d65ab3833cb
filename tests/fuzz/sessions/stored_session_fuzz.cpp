// A journal with a valid chain but invalid records: a session is loaded from them, or refused as damaged, and every
// verb is tried on it. Input: verbs, then records, each a type and a payload.
#include "session/records.h"
#include "tests/fuzz/sessions/table_user.h"

namespace ringside {
namespace {

const std::string kSession = "conv_" + std::string(22, 's');

}  // namespace

std::vector<std::string> Seeds() {
  std::mt19937 random;
  std::vector<std::string> seeds;
  for (int i = 0; i < 16; ++i) {
    TableUser user(&TableUser::MemoryJournal());
    const std::string id = user.table().CreateSession(user.me, {}, {}, {{ChatRole::kUser, "Hello"}})->id;
    user.Meet(id);
    user.RunVerbs(Choices(AnyVerbs(random)));
    user.table().Flush();
    const Result<JournalTranscript> transcript = TableUser::MemoryJournal().Read(id);
    if (!transcript.ok()) continue;  // a verb has deleted it
    std::vector<std::string> parts = {AnyVerbs(random)};
    FixedIds ids;
    for (const JournalRecord& record : transcript->records) {
      parts.push_back(static_cast<char>(record.type) + ids.Replace(record.payload));
    }
    seeds.push_back(JoinParts(parts));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const auto parts = SplitParts(data, size);
  JournalEntry entry{.session = kSession, .create = true, .summary = Encode(SessionSummary{"me", 1, 2})};
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    entry.records.push_back({static_cast<uint8_t>(parts[i].front()), std::string(parts[i].substr(1))});
  }
  Journal& journal = TableUser::MemoryJournal();
  Require(journal.Append(std::move(entry), [](const Status&, const JournalPosition&) {}).ok(),
          "a journal takes any records");
  journal.Flush();
  TableUser user(&journal);
  user.AllowDamage();
  user.Meet(kSession);
  user.RunVerbs(Choices(parts[0]));
  return 0;
}

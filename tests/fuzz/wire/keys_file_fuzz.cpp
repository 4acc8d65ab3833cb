// The keys file. A parsed file must round-trip, and everything that resembles a key is looked up.
#include <filesystem>

#include "tests/fuzz/fuzz_target.h"
#include "ws/access/key_file.h"
#include "ws/access/key_table.h"

namespace ringside {

std::vector<std::string> Seeds() {
  const std::string digits(64, 'a');
  const std::string key = R"({"id":"0123456789ab","owner":"alice","scopes":"chat,admin,metrics",)"
                          R"("created":"2026-11-24T07:00:00Z","expires":"2027-11-24T07:00:00Z","salt":")" +
                          digits + R"(","hash":")" + digits + R"("})";
  return {JoinParts({R"({"ringside_keys": 1, "owners": {"alice": {"turns": 4, "tokens_per_minute": 60000,)"
                     R"("sessions": 100, "chains": 9, "text_mb": 64, "stored_mb": 99}}, "keys": [)" +
                         key + "]}",
                     "rsk_0123456789ab_" + digits}),
          JoinParts({R"({"ringside_keys": 1, "keys": []})", "chat,metrics"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  const auto parts = SplitParts(data, size, 2);
  const Result<KeysFile> file = ParseKeysFile(parts[0]);
  if (file.ok()) {
    const std::string text = FormatKeysFile(*file);
    const Result<KeysFile> again = ParseKeysFile(text);
    Require(again.ok() && FormatKeysFile(*again) == text, "what was read can be written");
  } else {
    Require(file.status().code() == StatusCode::kInvalidArgument && !file.status().message().empty(), "it is said why");
  }
  const std::string path = folder.Write("keys.json", parts[0]);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const Result<std::unique_ptr<KeyTable>> table = KeyTable::Open(path);
  Require(table.ok() == file.ok(), "the server reads what the editor reads");
  if (table.ok()) Require(!(*table)->Find(parts[1]), "nobody has the secret behind a made-up hash");
  (void)Scopes::Parse(parts[1]);
  return 0;
}

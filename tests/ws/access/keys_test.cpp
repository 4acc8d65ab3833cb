// The keys file: parsing, refusals, authentication; and the command that edits it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "ws/access/key_editor.h"
#include "ws/access/key_table.h"
#include "ws/access/keys_command.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

/// Starts in November 2026.
class WallClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return 0; }
  double WallSeconds() const override { return static_cast<double>(now_s); }
  int64_t now_s = 1'795'500'000;
};

class KeysTest : public ::testing::Test {
 protected:
  KeysTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::temp_directory_path() /
             ("ringside_keys_" + std::string(test->name()) + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    path = (folder / "keys.json").string();
  }
  ~KeysTest() override { std::filesystem::remove_all(folder); }

  CommandOutcome Run(std::vector<std::string> args) {
    args.insert(args.begin() + 1, {"--file", path});
    return RunKeysCommand(args, {}, clock);
  }
  /// Adds a key of alice, modified by `more`; returns its text.
  std::string Add(const std::vector<std::string>& more = {}, const std::string& owner = "alice") {
    std::vector<std::string> args = {"add", "--owner", owner};
    args.insert(args.end(), more.begin(), more.end());
    const CommandOutcome outcome = Run(args);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.to_stderr;
    return outcome.to_stdout.substr(0, outcome.to_stdout.find('\n'));
  }
  std::unique_ptr<KeyTable> Open() {
    auto table = KeyTable::Open(path, clock);
    EXPECT_TRUE(table.ok()) << table.status().ToString();
    return std::move(*table);
  }
  std::string Content() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& text) {
    std::ofstream(path) << text;
    chmod(path.c_str(), 0600);
  }

  std::filesystem::path folder;
  std::string path;
  WallClock clock;
};

TEST_F(KeysTest, KeyIsShownOnceAndStoredHashed) {
  const std::string key = Add();
  EXPECT_THAT(key, MatchesRegex("rsk_[0-9a-f]{12}_[0-9a-f]{64}"));
  EXPECT_NE(Add(), key);
  EXPECT_THAT(Content(), Not(HasSubstr(key.substr(17))));
  EXPECT_THAT(Run({"list"}).to_stdout, Not(HasSubstr(key.substr(17))));
  EXPECT_THAT(Run({"list"}).to_stdout, HasSubstr(key.substr(4, 12)));
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(KeysTest, KeysOfOneOwnerAreOnePrincipal) {
  const std::string first = Add(), second = Add({"--scopes", "chat,admin"}), other = Add({}, "bob");
  const auto table = Open();
  EXPECT_EQ(table->size(), 3u);
  ASSERT_TRUE(table->Find(first));
  EXPECT_EQ(table->Find(first)->principal, table->Find(second)->principal);
  EXPECT_NE(table->Find(first)->principal, table->Find(other)->principal);
  EXPECT_EQ(table->Find(first)->scopes, Scopes::Chat());
  EXPECT_EQ(table->Find(second)->scopes, Scopes::Chat() | Scopes::Admin());
  EXPECT_NE(table->Find(first)->key_id, table->Find(second)->key_id);
}

TEST_F(KeysTest, OnlyAValidKeyAuthenticates) {
  const std::string key = Add(), other = Add();
  const auto table = Open();
  std::string wrong = key;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  std::string upper = key;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string& text :
       {std::string(), std::string("rsk_"), wrong, upper, key + "0", key.substr(0, key.size() - 1), " " + key,
        key.substr(0, 17) + other.substr(17), "rsk_000000000000_" + key.substr(17), std::string(81, '\0')}) {
    EXPECT_FALSE(table->Find(text)) << text;
  }
  EXPECT_TRUE(table->Find(key));
}

TEST_F(KeysTest, KeyExpires) {
  const std::string key = Add({"--expires", "1h"});
  const auto table = Open();
  const std::string id = table->Find(key)->key_id;
  clock.now_s += 3599;
  EXPECT_TRUE(table->Find(key));
  EXPECT_TRUE(table->IsGood(id));
  clock.now_s += 1;
  EXPECT_FALSE(table->Find(key));
  EXPECT_FALSE(table->IsGood(id));
  EXPECT_THAT(Run({"list"}).to_stdout, HasSubstr("(expired)"));
}

TEST_F(KeysTest, RunningTableReloadsEdits) {
  const std::string first = Add();
  const auto table = Open();
  EXPECT_FALSE(table->Reload().value()) << "nothing has changed";
  const std::string id = table->Find(first)->key_id;
  const std::string second = Add({}, "bob");
  EXPECT_FALSE(table->Find(second));
  EXPECT_TRUE(table->Reload().value());
  EXPECT_TRUE(table->Find(second));
  ASSERT_EQ(Run({"revoke", id}).exit_code, 0);
  EXPECT_TRUE(table->IsGood(id)) << "until the file is read";
  EXPECT_TRUE(table->Reload().value());
  EXPECT_FALSE(table->IsGood(id));
  EXPECT_FALSE(table->Find(first));
  EXPECT_TRUE(table->Find(second));
}

TEST_F(KeysTest, UnusableFileChangesNothingAndIsReportedOnce) {
  const std::string key = Add();
  const auto table = Open();
  Write("{\"ringside_keys\": 1, \"keys\": [{}]}");
  EXPECT_FALSE(table->Reload().ok());
  EXPECT_TRUE(table->Reload().ok()) << "told already";
  EXPECT_TRUE(table->Find(key));
  std::filesystem::remove(path);
  EXPECT_FALSE(table->Reload().ok());
  EXPECT_TRUE(table->Find(key));
  EXPECT_FALSE(table->Reload(/*anyway=*/true).ok()) << "who asks is told";
}

TEST_F(KeysTest, RotationKeepsTheOldKeyForAWhile) {
  const std::string old = Add({"--scopes", "metrics"});
  const CommandOutcome outcome = Run({"rotate", old.substr(4, 12), "--overlap", "10m"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.to_stderr;
  const std::string fresh = outcome.to_stdout.substr(0, outcome.to_stdout.size() - 1);
  const auto table = Open();
  EXPECT_EQ(table->Find(fresh)->principal, table->Find(old)->principal);
  EXPECT_EQ(table->Find(fresh)->scopes, Scopes::Metrics());
  clock.now_s += 600;
  EXPECT_FALSE(table->Find(old));
  EXPECT_TRUE(table->Find(fresh));
}

TEST_F(KeysTest, OwnersHaveTheirOwnShares) {
  const std::string key = Add();
  ASSERT_EQ(Run({"limit", "alice", "--turns", "4", "--tokens-per-minute", "6000"}).exit_code, 0);
  ASSERT_EQ(Run({"limit", "alice", "--turns", "default", "--text-mb", "0"}).exit_code, 0);
  ASSERT_EQ(Run({"limit", "alice", "--chains", "20", "--stored-mb", "512"}).exit_code, 0);
  EXPECT_NE(Run({"limit", "alice", "--stored-mb", "16777217"}).exit_code, 0);
  EXPECT_THAT(Run({"list"}).to_stdout, HasSubstr("20 chains, 0 MiB of text, 512 MiB on disk"));
  const auto table = Open();
  const OwnerShare share = table->ShareOf(table->Find(key)->principal);
  EXPECT_EQ(share.chains, 20);
  EXPECT_EQ(share.stored_mb, 512);
  EXPECT_EQ(share.turns, std::nullopt);
  EXPECT_EQ(share.tokens_per_minute, 6000);
  EXPECT_EQ(share.text_mb, 0);
  EXPECT_EQ(share.sessions, std::nullopt);
  EXPECT_EQ(table->ShareOf("owner:bob").tokens_per_minute, std::nullopt);
}

TEST_F(KeysTest, RefusesInvalidCommands) {
  const std::string key = Add();
  const std::string before = Content();
  EXPECT_EQ(Run({"add"}).exit_code, 2);
  EXPECT_EQ(Run({"add", "--owner", "a b"}).exit_code, 1);
  EXPECT_THAT(Run({"add", "--owner", "a", "--scopes", "chat,root"}).to_stderr, HasSubstr("\"root\" is no scope"));
  for (const char* time :
       {"yesterday", "0d", "-1d", "2026-02-31T00:00:00Z", "2020-01-01T00:00:00Z", "9999999999999d"}) {
    EXPECT_THAT(Run({"add", "--owner", "a", "--expires", time}).to_stderr, HasSubstr("--expires")) << time;
  }
  EXPECT_THAT(Run({"revoke", "0123456789ab"}).to_stderr, HasSubstr("no key has the id"));
  EXPECT_EQ(Run({"limit", "alice", "--turns", "-1"}).exit_code, 1);
  EXPECT_EQ(RunKeysCommand({"list"}, {}, clock).exit_code, 2) << "no file";
  EXPECT_EQ(Content(), before);
  EXPECT_EQ(RunKeysCommand({"list"}, {{"RINGSIDE_KEYS_FILE", path}}, clock).exit_code, 0);
}

TEST_F(KeysTest, RefusesAFileReadableByOthers) {
  Add();
  chmod(path.c_str(), 0640);
  EXPECT_THAT(KeyTable::Open(path, clock).status().message(), HasSubstr("mode 0640"));
  EXPECT_THAT(Run({"list"}).to_stderr, HasSubstr("mode 0640"));
}

TEST_F(KeysTest, ConcurrentEditsAreNotLost) {
  Add();
  std::vector<std::thread> editors;
  for (int i = 0; i < 8; ++i) {
    editors.emplace_back([this, i] {
      for (int n = 0; n < 5; ++n) Add({}, "owner" + std::to_string(i));
    });
  }
  for (std::thread& editor : editors) editor.join();
  EXPECT_EQ(Open()->size(), 41u);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("keys.json", "keys.json.lock"))
        << "no drafts are left";
  }
}

TEST_F(KeysTest, WritePreservesTheSymlink) {
  Add();
  const std::string file = path;
  path = (folder / "link.json").string();
  std::filesystem::create_symlink("keys.json", path);
  Add();
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  path = file;
  EXPECT_EQ(Open()->size(), 2u);
}

TEST(KeysFileTest, KeysFileRoundTrips) {
  KeysFile file;
  file.owners["alice@example.org"] = {
      .turns = 0, .tokens_per_minute = 1, .sessions = {}, .chains = 3, .text_mb = 2, .stored_mb = 4};
  file.keys.push_back(MakeKey("alice@example.org", Scopes::All(), 1'700'000'000, 0).stored);
  file.keys.push_back(MakeKey("bob", Scopes::Chat(), 1'700'000'000, 1'800'000'000).stored);
  const Result<KeysFile> read = ParseKeysFile(FormatKeysFile(file));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(FormatKeysFile(*read), FormatKeysFile(file));
  EXPECT_EQ(read->keys[1].expires_s, 1'800'000'000);
  EXPECT_EQ(read->keys[0].salt, file.keys[0].salt);
}

TEST(KeysFileTest, RefusesInvalidFilesByName) {
  const auto with = [](const std::string& from, const std::string& to) {
    KeysFile file;
    file.owners["alice"].turns = 5;
    StoredKey key = MakeKey("alice", Scopes::Chat(), 1'700'000'000, 1'800'000'000).stored;
    key.id = "0123456789ab";
    key.salt = key.hash = std::string(32, '\xAB');
    file.keys = {key};
    std::string text = FormatKeysFile(file);
    const size_t at = text.find(from);
    CHECK(at != std::string::npos);
    return ParseKeysFile(text.replace(at, from.size(), to)).status().message();
  };
  EXPECT_THAT(with("{\"ringside_keys\": 1", "{\"ringside_keys\": 2"), HasSubstr("not a keys file"));
  EXPECT_THAT(with("]}", "]"), HasSubstr("not JSON"));
  EXPECT_THAT(with("\"keys\"", "\"kez\""), HasSubstr("\"kez\" is unknown"));
  EXPECT_THAT(with("\"turns\":5", "\"turns\":-5"), HasSubstr("owner \"alice\": \"turns\" is not a whole number"));
  EXPECT_THAT(with("\"turns\":5", "\"turns\":99999999999999999999"), HasSubstr("\"turns\""));
  EXPECT_THAT(with("\"turns\":5", "\"turn\":5"), HasSubstr("owner \"alice\": unknown \"turn\""));
  EXPECT_THAT(with("\"alice\":{", "\"al ice\":{"), HasSubstr("a name is 1 to 64"));
  EXPECT_THAT(with("0123456789ab", "0123456789AB"), HasSubstr("key 1: \"id\""));
  EXPECT_THAT(with("\"scopes\":\"chat\"", "\"scopes\":\"chat,\""), HasSubstr("key 1: scopes"));
  EXPECT_THAT(with("\"scopes\":\"chat\"", "\"scopes\":7"), HasSubstr("key 1: \"scopes\""));
  EXPECT_THAT(with("\"expires\":\"2027-01-15", "\"expires\":\"2027-13-15"), HasSubstr("key 1: \"expires\""));
  EXPECT_THAT(with("\"salt\":\"ab", "\"salt\":\"zz"), HasSubstr("key 1: \"salt\""));
  EXPECT_THAT(with("\"hash\":\"ab", "\"hash\":\""), HasSubstr("key 1: \"hash\""));
  EXPECT_THAT(with("\"hash\"", "\"more\":1,\"hash\""), HasSubstr("key 1: unknown \"more\""));
}

}  // namespace
}  // namespace ringside

// `ringside sessions` against a scripted server: its requests, output, files and exit codes.
#include "clients/cli/sessions.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/clients/fake_server.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Verb = SessionsOptions::Verb;

class SessionsTest : public ::testing::Test {
 protected:
  SessionsTest()
      : folder_(::testing::TempDir() + "/ringside_sessions_" + std::to_string(getpid())),
        server_({.on_request = [this](const FakeRequest& request) {
          std::lock_guard lock(mutex_);
          requests_.push_back(request);
          const auto answer = answers_.find(request.method + " " + request.target);
          return answer == answers_.end() ? FakeAnswer{404, R"({"error":{"message":"There is none."}})"}
                                          : answer->second;
        }}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SessionsTest() override { std::filesystem::remove_all(folder_); }

  void On(const std::string& request, std::string body, int status = 200) {
    answers_[request] = {status, std::move(body)};
  }
  int Run(Verb verb, std::vector<std::string> ids = {}, const std::string& path = "") {
    Options options;
    options.verb = Options::Verb::kSessions;
    options.server.url = server_.url();
    options.server.api_key = key_;
    options.sessions.verb = verb;
    options.sessions.ids = std::move(ids);
    options.sessions.path = path;
    options.sessions.json = json_;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = LookAfterSessions(options);
    std::fflush(stdout);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_;
  std::mutex mutex_;
  std::map<std::string, FakeAnswer> answers_;
  std::vector<FakeRequest> requests_;
  FakeServer server_;
  bool json_ = false;
  std::string key_ = "key";
  std::string out_, err_;
};

constexpr char kOne[] =
    R"({"id":"conv_a","created_at":1700000000,"ringside":{"items":2,"tokens":874,"pinned":24,"tokens_evicted":0,
        "memory_len":2048,"session_len":4096,"updated_at":1700003600,"epoch":7,"durable":true,"seq":341,
        "chain":"5f3e","cache":"host","active_response_id":null}})";

TEST_F(SessionsTest, ShowsStorageLocations) {
  On("GET /v1/conversations/conv_a", kOne);
  EXPECT_EQ(Run(Verb::kShow, {"conv_a"}), 0);
  for (const char* part : {"conv_a\n", "last used", "messages 2\n", "874 tokens of at most 4096", "2048 in view",
                           "24 pinned", "in host memory", "on disk, record 341, chain 5f3e", "epoch    7\n"}) {
    EXPECT_THAT(out_, HasSubstr(part));
  }
  EXPECT_THAT(out_, Not(HasSubstr("evicted")));
  EXPECT_THAT(out_, Not(HasSubstr("running")));
  EXPECT_EQ(requests_.front().authorization, "Bearer key");
}

TEST_F(SessionsTest, ContinuesAfterAnUnknownId) {
  On("GET /v1/conversations/conv_a", kOne);
  EXPECT_EQ(Run(Verb::kShow, {"conv_no", "conv_a"}), 1);
  EXPECT_THAT(err_, HasSubstr("conv_no: There is none."));
  EXPECT_THAT(out_, HasSubstr("conv_a"));
}

TEST_F(SessionsTest, ListsWithoutControlCharacters) {
  On("GET /v1/conversations?limit=100", R"({"data":[{"id":"conv_\u001b[31m"}],"has_more":false})");
  EXPECT_EQ(Run(Verb::kList), 0);
  EXPECT_THAT(out_, HasSubstr("conv_"));
  EXPECT_THAT(out_, Not(HasSubstr("\x1b")));
}

TEST_F(SessionsTest, DoesNotRequestAnInvalidId) {
  for (const char* id : {"resp_a", "conv_a/../x", ""}) {
    EXPECT_EQ(Run(Verb::kDelete, {"conv_a", id}), 2) << id;
    EXPECT_THAT(err_, HasSubstr("give its id (conv_...) or its number"));
  }
  EXPECT_TRUE(requests_.empty());
}

TEST_F(SessionsTest, NumberRefersToTheLastShownList) {
  ::setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  const std::string list = "GET /v1/conversations?limit=100";
  On(list, R"({"data":[{"id":"conv_b"},{"id":"conv_a"}],"has_more":false})");
  On("GET /v1/conversations/conv_a", kOne);
  EXPECT_EQ(Run(Verb::kList), 0);
  On(list, R"({"data":[{"id":"conv_new"},{"id":"conv_b"},{"id":"conv_a"}],"has_more":false})");
  EXPECT_EQ(Run(Verb::kShow, {"2"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("conv_a"));
  EXPECT_EQ(Run(Verb::kShow, {"3"}), 2);
  EXPECT_THAT(err_, HasSubstr("no number 3 in the list of conversations; it has 2"));
  ::unsetenv("XDG_STATE_HOME");
}

TEST_F(SessionsTest, NumberRefersToTheServersNewestWithoutAList) {
  ::setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  On("GET /v1/conversations?limit=1", R"({"data":[{"id":"conv_a"}],"has_more":true})");
  On("GET /v1/conversations/conv_a", kOne);
  EXPECT_EQ(Run(Verb::kShow, {"1"}), 0) << err_;
  ::unsetenv("XDG_STATE_HOME");
}

TEST_F(SessionsTest, JsonIsTheServersResponse) {
  json_ = true;
  On("GET /v1/conversations/conv_a", kOne);
  EXPECT_EQ(Run(Verb::kShow, {"conv_a"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out_), nlohmann::json::array({nlohmann::json::parse(kOne)}));
  On("GET /v1/conversations?limit=100", R"({"data":[],"has_more":false})");
  EXPECT_EQ(Run(Verb::kList), 0);
  EXPECT_EQ(nlohmann::json::parse(out_), nlohmann::json::array());
}

TEST_F(SessionsTest, ExportsToAPrivateNewFile) {
  const std::string bytes("ringside session 1\n\0\xff\x00", 22);
  On("GET /v1/conversations/conv_a/export", bytes);
  const std::string path = File("a.ringside");
  EXPECT_EQ(Run(Verb::kExport, {"conv_a"}, path), 0) << err_;
  EXPECT_EQ(Content(path), bytes);
  EXPECT_THAT(out_, HasSubstr(path));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // Existing files are not overwritten.
  On("GET /v1/conversations/conv_a/export", "other");
  EXPECT_EQ(Run(Verb::kExport, {"conv_a"}, path), 1);
  EXPECT_EQ(Content(path), bytes);
  EXPECT_EQ(Run(Verb::kExport, {"conv_a"}, "-"), 0);
  EXPECT_EQ(out_, "other");
  EXPECT_EQ(Run(Verb::kExport, {"conv_no"}, File("no")), 1);
  EXPECT_FALSE(std::filesystem::exists(File("no")));
}

TEST_F(SessionsTest, RemovesAPartiallyWrittenFile) {
  On("GET /v1/conversations/conv_a/export", "bytes");
  EXPECT_EQ(Run(Verb::kExport, {"conv_a"}, "/dev/full"), 1);  // exists already
  EXPECT_EQ(Run(Verb::kExport, {"conv_a"}, File("none") + "/a"), 1);
  EXPECT_THAT(err_, HasSubstr("No such file"));
}

TEST_F(SessionsTest, ImportsAFile) {
  On("POST /v1/conversations/import", kOne);
  const std::string bytes("ringside session 1\n\0\xff", 21);
  std::ofstream(File("in"), std::ios::binary) << bytes;
  EXPECT_EQ(Run(Verb::kImport, {}, File("in")), 0) << err_;
  EXPECT_EQ(requests_.front().body, bytes);
  EXPECT_EQ(requests_.front().content_type, "application/octet-stream");
  EXPECT_THAT(out_, HasSubstr("conv_a"));
  EXPECT_EQ(Run(Verb::kImport, {}, File("none")), 2);
  On("POST /v1/conversations/import", R"({"error":{"message":"These bytes are no exported conversation."}})", 400);
  EXPECT_EQ(Run(Verb::kImport, {}, File("in")), 1);
  EXPECT_THAT(err_, HasSubstr("no exported conversation"));
}

TEST_F(SessionsTest, Deletes) {
  On("DELETE /v1/conversations/conv_a", R"({"deleted":true})");
  EXPECT_EQ(Run(Verb::kDelete, {"conv_a"}), 0);
  EXPECT_EQ(out_, "Deleted conv_a.\n");
  EXPECT_EQ(Run(Verb::kDelete, {"conv_no", "conv_a"}), 1);
  EXPECT_EQ(requests_.size(), 3u);
}

TEST_F(SessionsTest, VerifiesOneOrAllAndFailsForDamage) {
  On("GET /v1/conversations?limit=100", R"({"data":[{"id":"conv_a"},{"id":"conv_b"}],"has_more":false})");
  On("POST /v1/conversations/conv_a/verify", R"({"id":"conv_a","ok":true,"records":12,"message":null})");
  On("POST /v1/conversations/conv_b/verify", R"({"id":"conv_b","ok":false,"records":3,"message":"record 4 is torn"})");
  EXPECT_EQ(Run(Verb::kVerify, {"conv_a"}), 0);
  EXPECT_EQ(out_, "conv_a  sound, 12 records\n1 sound, 0 damaged\n");
  EXPECT_EQ(Run(Verb::kVerify), 74);
  EXPECT_THAT(out_, HasSubstr("conv_b  damaged: record 4 is torn\n1 sound, 1 damaged\n"));
  EXPECT_EQ(Run(Verb::kVerify, {"conv_no"}), 1);
  EXPECT_EQ(out_, "0 sound, 0 damaged, 1 not checked\n");
}

TEST_F(SessionsTest, NamesTheScopeOfARouteThatTheKeyDoesNotSee) {
  On("POST /v1/conversations/conv_a/verify", R"({"error":{"message":"There is nothing at POST /v1/x."}})", 404);
  EXPECT_EQ(Run(Verb::kVerify, {"conv_a"}), 1);
  EXPECT_THAT(err_, HasSubstr("nothing at POST /v1/x. The command may need a key with scope admin.\n"));
}

TEST_F(SessionsTest, RefusedKeyGetsOneInstruction) {
  On("GET /v1/conversations?limit=100", R"({"error":{"message":"No API key was given. Send it as `X`."}})", 401);
  EXPECT_EQ(Run(Verb::kList), 1);
  EXPECT_THAT(err_, HasSubstr("Check --api-key or RINGSIDE_API_KEY.\n"));
  key_ = "";
  EXPECT_EQ(Run(Verb::kList), 1);
  EXPECT_THAT(err_, EndsWith("The server requires a key: give it with --api-key or RINGSIDE_API_KEY.\n"));
  EXPECT_THAT(err_, Not(HasSubstr("Send it as")));
}

TEST_F(SessionsTest, ListNamesTheDamagedAndFailsForThem) {
  On("GET /v1/conversations?limit=100", R"({"data":[{"id":"conv_a","ringside":{"items":2,"damaged":null}},
      {"id":"conv_b","ringside":{"items":0,"damaged":"the chain breaks at record 4"}}],"has_more":false})");
  EXPECT_EQ(Run(Verb::kList), 74);
  EXPECT_THAT(out_, HasSubstr("conv_a"));
  EXPECT_THAT(out_, HasSubstr("conv_b"));
  EXPECT_THAT(out_, HasSubstr("damaged: the chain breaks at record 4\n"));
  EXPECT_THAT(err_, HasSubstr("1 of 2 listed are damaged"));
}

}  // namespace
}  // namespace ringside::client

// `ringside models --server`, `load` and `unload` against a scripted server: requests, output and exit codes.
#include "clients/cli/served_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/clients/fake_server.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kList[] = R"({"data": [
    {"id": "small", "ringside": {"state": "loaded", "file_bytes": 2000000000, "memory_bytes": 2500000000,
                                 "turns_running": 2, "turns_waiting": 0}},
    {"id": "small-alias", "parent": "small"},
    {"id": "owner/large", "ringside": {"state": "unloaded", "file_bytes": 98000000, "turns_waiting": 1}},
    {"id": "bad\u001b[2J", "ringside": {"state": "unsupported", "reason": "no tokenizer"}}]})";

class ServedModelsTest : public ::testing::Test {
 protected:
  ServedModelsTest()
      : server_({.on_request = [this](const FakeRequest& request) {
          const std::lock_guard lock(mutex_);
          requests_.push_back(request.method + " " + request.target + " " + request.body);
          return answer_;
        }}) {}
  ServerAccess Access() { return {.url = server_.url(), .api_key = "key"}; }
  /// Runs the command with this answer of the server.
  template <class Command>
  int Run(int status, std::string body, const Command& command) {
    answer_ = {status, std::move(body)};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = command();
    std::fflush(stdout);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  std::mutex mutex_;
  std::vector<std::string> requests_;
  FakeAnswer answer_;
  FakeServer server_;
  std::string out_, err_;
};

TEST_F(ServedModelsTest, TableHasStatesAndReasons) {
  ASSERT_EQ(Run(200, kList, [&] { return ListServedModels(Access(), false); }), 0);
  EXPECT_THAT(requests_, ElementsAre("GET /v1/models "));
  EXPECT_THAT(out_, HasSubstr("small        loaded        2.0 GB   2.5 GB        2        0\n"));
  EXPECT_THAT(out_, HasSubstr("owner/large  unloaded       98 MB        -        0        1\n"));
  EXPECT_THAT(out_, HasSubstr(": no tokenizer\n"));
  EXPECT_THAT(out_, Not(HasSubstr("small-alias")));
  EXPECT_THAT(out_, Not(HasSubstr("\033")));
  ASSERT_EQ(Run(200, R"({"data": [{"id": "only"}]})", [&] { return ListServedModels(Access(), false); }), 0);
  EXPECT_THAT(out_, HasSubstr("only  loaded"));
  ASSERT_EQ(Run(200, R"({"data": 5})", [&] { return ListServedModels(Access(), false); }), 0);
  ASSERT_EQ(Run(200, R"({"data": []})", [&] { return ListServedModels(Access(), true); }), 0);
  EXPECT_EQ(out_, "{\"data\": []}\n");
}

TEST_F(ServedModelsTest, LoadsAndUnloadsByName) {
  const auto change = [&](bool load) { return [this, load] { return ChangeServedModel(Access(), "Small", load); }; };
  EXPECT_EQ(Run(200, R"({"success": true, "model": "small"})", change(true)), 0);
  EXPECT_EQ(out_, "small is loaded.\n");
  EXPECT_EQ(Run(200, R"({"success": true, "model": "small"})", change(false)), 0);
  EXPECT_EQ(out_, "small is unloaded.\n");
  EXPECT_THAT(requests_,
              ElementsAre(R"(POST /models/load {"model":"Small"})", R"(POST /models/unload {"model":"Small"})"));
  EXPECT_EQ(Run(409, R"({"error": {"message": "It has 2 running turns.", "code": "model_in_use"}})", change(false)), 1);
  EXPECT_EQ(err_, "ringside: It has 2 running turns.\n");
  EXPECT_EQ(Run(404, R"({"error": {"message": "There is nothing at POST /models/load."}})", change(true)), 1);
  EXPECT_THAT(err_, HasSubstr("may need a key with scope admin"));
  for (const char* body : {"", "[]", "{\"model\": 5}", "not JSON"}) {
    EXPECT_EQ(Run(200, body, change(true)), 1) << body;
    EXPECT_EQ(out_, "");
  }
}

}  // namespace
}  // namespace ringside::client

// Small requests with a high cost run on a separate lane, alongside other calls.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/request_watch.h"
#include "base/worker_pool.h"
#include "tests/base/gate.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

class LongWorkOfSessionsTest : public ::testing::Test, protected TableFixture {
 protected:
  /// Whether `call`, on a worker, waits for another client's long work.
  static bool IsLong(const std::function<void()>& call) {
    WorkerPool pool({.threads = 1});
    Gate gate;
    EXPECT_TRUE(pool.Submit("other", 0, [&] { EXPECT_TRUE(RunLongWork(gate.Call()).ok()); }).ok());
    gate.WaitEntered(1);
    std::promise<void> promise;
    const std::future<void> done = promise.get_future();
    EXPECT_TRUE(pool.Submit("me", 0,
                            [&] {
                              call();
                              promise.set_value();
                            })
                    .ok());
    bool waits = false;
    while (!waits && done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      waits = pool.stats().long_calls == 2;
      std::this_thread::yield();
    }
    gate.Open();
    done.wait();
    return waits;
  }
  TurnSpec Spec(const std::string& conversation, const std::string& text) const {
    TurnSpec spec;
    spec.conversation = conversation;
    if (!text.empty()) spec.input = {{ChatRole::kUser, text}};
    return spec;
  }
  Status Ask(TurnSpec spec) { return table.StartTurn(me, std::move(spec), sink).status(); }
  static AnswerFormat Format() { return {.kind = AnswerFormat::Kind::kRegex, .text = "[A-Z][a-z ]+", .param = "text"}; }

  const Caller me{"me", 7};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
  const std::string id = table.CreateSession(me, {}, {}, {})->id;
};

TEST_F(LongWorkOfSessionsTest, TurnIsNotLongWork) {
  Status asked;
  EXPECT_FALSE(IsLong([&] { asked = Ask(Spec(id, "Hi")); }));
  EXPECT_TRUE(asked.ok()) << asked.ToString();
}

TEST_F(LongWorkOfSessionsTest, ATurnWithLongInputIs) {
  const std::string text(256 << 10, 'a');  // refused where the session has no room for it
  Status asked;
  EXPECT_TRUE(IsLong([&] { asked = Ask(Spec(id, text)); }));
  TurnSpec prompt;
  prompt.raw.emplace().text = text;
  EXPECT_TRUE(IsLong([&] { asked = Ask(prompt); }));
}

TEST_F(LongWorkOfSessionsTest, LongInputOfAClientThatHasLeftStartsNoTurn) {
  const RequestWatch watch([] { return true; });
  EXPECT_EQ(Ask(Spec(id, std::string(256 << 10, 'a'))).code(), StatusCode::kCancelled);
  EXPECT_TRUE(Ask(Spec(id, "Hi")).ok()) << "short input is not interrupted";
}

TEST_F(LongWorkOfSessionsTest, ExportIsLongWork) {
  Result<std::string> bytes = std::string();
  EXPECT_TRUE(IsLong([&] { bytes = table.ExportSession(me, id); }));
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
}

TEST_F(LongWorkOfSessionsTest, CompilingAGrammarIsLongWork) {
  Status asked;
  TurnSpec spec = Spec(id, "Hi");
  spec.format = Format();
  EXPECT_TRUE(IsLong([&] { asked = Ask(spec); }));
  EXPECT_TRUE(asked.ok()) << asked.ToString();
  engine.AnswerLast("Yo");
  EXPECT_FALSE(IsLong([&] { asked = Ask(spec); })) << "it is compiled";
  EXPECT_TRUE(asked.ok()) << asked.ToString();
}

TEST_F(LongWorkOfSessionsTest, ContinuingUnderAGrammarIsLongWork) {
  TurnSpec spec = Spec(id, "Hi");
  spec.format = Format();
  ASSERT_TRUE(Ask(spec).ok());
  engine.Answer(engine.count() - 1, "Yo", FinishReason::kLength);
  Status asked;
  EXPECT_TRUE(IsLong([&] { asked = Ask(Spec(id, "")); }));
  EXPECT_TRUE(asked.ok()) << asked.ToString();
}

}  // namespace
}  // namespace ringside

// Log output as text and as JSON.
#include "base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "base/trace_context.h"

namespace ringside {
namespace {

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { ConfigureLog(LogLevel::kInfo, LogFormat::kText); }

  /// Returns what `write` logs, without time and level.
  template <class Write>
  std::string Logged(LogFormat format, Write write) {
    ConfigureLog(LogLevel::kInfo, format);
    testing::internal::CaptureStderr();
    write();
    const std::string line = testing::internal::GetCapturedStderr();
    const std::string behind = format == LogFormat::kJson ? R"("level":"info",)" : "info    ";
    const size_t at = line.find(behind);
    EXPECT_TRUE(at != std::string::npos && line.ends_with('\n')) << line;
    return line.substr(at + behind.size(), line.size() - at - behind.size() - 1);
  }
};

TEST_F(LogTest, JsonHasFactsAsMembersAndTextIsASentence) {
  const auto write = [] {
    const std::string id = "resp_1";
    WriteLog(LogLevel::kInfo, "a turn", {{"event", "turn"}, {"id", id}, {"tokens", int64_t{12}}, {"ms", 1.25}});
  };
  EXPECT_EQ(Logged(LogFormat::kJson, write), R"("msg":"a turn","event":"turn","id":"resp_1","tokens":12,"ms":1.250})");
  EXPECT_EQ(Logged(LogFormat::kText, write), "a turn");
}

TEST_F(LogTest, LogLinesNameTheirTrace) {
  const TraceContext outer{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", true}, none;
  const auto write = [&] {
    const LogTrace trace(outer);
    const LogTrace inner(none);  // for a turn loaded from disk
    LogInfo("quiet");
  };
  EXPECT_EQ(Logged(LogFormat::kText, write), "quiet");
  const auto named = [&] {
    { const LogTrace trace(outer), inner(none); }
    const LogTrace trace(outer);
    LogInfo("named");
  };
  EXPECT_EQ(Logged(LogFormat::kText, named), "named; trace 4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(Logged(LogFormat::kJson, named),
            R"("msg":"named","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"})");
  EXPECT_EQ(Logged(LogFormat::kText, [] { LogInfo("after"); }), "after");
}

TEST_F(LogTest, JsonStaysValidForAnyName) {
  const auto escaped = [&](const std::string& text) {
    return Logged(LogFormat::kJson, [&] { WriteLog(LogLevel::kInfo, text); });
  };
  EXPECT_EQ(escaped("a \"b\" \\ \n\x7f"), R"("msg":"a \"b\" \\ \u000a\u007f"})");
  EXPECT_EQ(escaped("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82"), "\"msg\":\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82\"}");
  // Truncated, overlong, half of a surrogate pair, beyond the last code point, a stray continuation byte.
  EXPECT_EQ(escaped("\xC3"), R"("msg":"\ufffd"})");
  EXPECT_EQ(escaped("\xC0\x80"), R"("msg":"\ufffd\ufffd"})");
  EXPECT_EQ(escaped("\xE0\x80\x80x"), R"("msg":"\ufffd\ufffd\ufffdx"})");
  EXPECT_EQ(escaped("\xED\xA0\x80"), R"("msg":"\ufffd\ufffd\ufffd"})");
  EXPECT_EQ(escaped("\xF4\x90\x80\x80"), R"("msg":"\ufffd\ufffd\ufffd\ufffd"})");
  EXPECT_EQ(escaped("\x80\xFF"), R"("msg":"\ufffd\ufffd"})");
}

TEST_F(LogTest, NamesTheExceptionType) {
  EXPECT_EQ(TypeOf(std::runtime_error("what somebody said")), "std::runtime_error");
}

}  // namespace
}  // namespace ringside

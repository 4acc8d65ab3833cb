// The reader of one HTTP request alone: progress, framing, limits, pace.
#include "ws/transport/http/request_reader.h"

#include <gtest/gtest.h>

#include <boost/beast/http/error.hpp>
#include <string>

namespace ringside::testing {
namespace {

using std::chrono::milliseconds;

/// Parses all that the parser takes of `bytes`; the last verdict of the parser.
boost::system::error_code Feed(RequestReader& reader, std::string_view bytes, size_t* left = nullptr) {
  boost::system::error_code error;
  while (!bytes.empty() && !reader.complete()) {
    const Result<size_t> used = reader.Parse(bytes, error);
    EXPECT_TRUE(used.ok());
    if (!used.ok() || error || *used == 0) break;
    bytes.remove_prefix(*used);
  }
  if (left != nullptr) *left = bytes.size();
  return error;
}

TEST(RequestReaderTest, ReadsARequestAndLeavesTheNext) {
  RequestReader reader;
  const std::string head = "POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
  EXPECT_EQ(reader.ReadHead(head.substr(0, 20)), RequestHead::Verdict::kMore);
  EXPECT_EQ(reader.ReadHead(head), RequestHead::Verdict::kWhole);
  EXPECT_FALSE(reader.has_head());
  Feed(reader, head);
  ASSERT_TRUE(reader.has_head());
  EXPECT_FALSE(reader.complete());
  size_t left = 0;
  Feed(reader, "bodyGET /", &left);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(left, 5u);
  EXPECT_EQ(reader.TakeBody(), "body");
  EXPECT_EQ(reader.body_bytes(), 0u);
}

TEST(RequestReaderTest, IsCheckedOnce) {
  RequestReader reader;
  EXPECT_FALSE(reader.BeginCheck());
  Feed(reader, "GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_FALSE(reader.checked());
  EXPECT_TRUE(reader.BeginCheck());
  EXPECT_TRUE(reader.checked());
  EXPECT_FALSE(reader.BeginCheck());
  const Result<HttpTarget> target = reader.Check();
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->path, "/v1/x");
}

TEST(RequestReaderTest, ChecksTheFramingOfChunks) {
  RequestReader reader;
  Feed(reader, "POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  ASSERT_TRUE(reader.Check().ok());
  boost::system::error_code error;
  const Result<size_t> used = reader.Parse("4\nbody", error);  // a bare line feed
  EXPECT_FALSE(used.ok());
}

TEST(RequestReaderTest, LimitsAnnouncedAndReceivedBodies) {
  RequestReader announced;
  Feed(announced, "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
  EXPECT_FALSE(announced.LimitBody(4).ok());
  EXPECT_TRUE(announced.LimitBody(5).ok());

  RequestReader chunked;
  Feed(chunked, "POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  ASSERT_TRUE(chunked.Check().ok());
  ASSERT_TRUE(chunked.LimitBody(4).ok());
  const boost::system::error_code error = Feed(chunked, "5\r\nhello\r\n");
  EXPECT_EQ(error, boost::beast::http::error::body_limit);
  EXPECT_EQ(MapStatus(ParseFailure(error)).http_status, 413);
}

TEST(RequestReaderTest, WantsContinueOnlyForABodyThatHasNotArrived) {
  const std::string expects = "POST /v1/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ";
  RequestReader with_body;
  Feed(with_body, expects + "4\r\n\r\n");
  EXPECT_TRUE(with_body.WantsContinue());
  RequestReader without;
  Feed(without, expects + "0\r\n\r\n");
  EXPECT_TRUE(without.complete());
  EXPECT_FALSE(without.WantsContinue());
}

TEST(RequestReaderTest, MeasuresThePaceOfTheBody) {
  RequestReader reader;
  Feed(reader, "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
  const std::string second(8 << 10, 'x');  // the least of one second
  Feed(reader, second.substr(1));
  EXPECT_FALSE(reader.KeepsPace(milliseconds(1'000)));
  Feed(reader, "x");
  EXPECT_TRUE(reader.KeepsPace(milliseconds(1'000)));
  EXPECT_FALSE(reader.KeepsPace(milliseconds(1'000)));
  Feed(reader, second);
  EXPECT_TRUE(reader.KeepsPace(milliseconds(1'000)));
}

}  // namespace
}  // namespace ringside::testing

// The head of a request: accepted and refused input, however it is split.
#include "ws/transport/http/request_head.h"

#include <gtest/gtest.h>

#include <string>

namespace ringside {
namespace {

using Verdict = RequestHead::Verdict;

Verdict ReadWhole(const std::string& head) { return RequestHead().Read(head); }

/// Byte by byte.
Verdict Trickle(const std::string& text, size_t* bytes) {
  RequestHead head;
  for (size_t i = 1; i <= text.size(); ++i) {
    const Verdict verdict = head.Read(text.substr(0, i));
    *bytes = head.bytes();
    if (verdict != Verdict::kMore) return verdict;
  }
  return Verdict::kMore;
}

TEST(RequestHeadTest, AcceptsHeadsOfRealClients) {
  for (const std::string head :
       {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a?b=%20#c HTTP/1.0\r\n\r\n",
        "POST http://a:1/b HTTP/1.1\r\nhOST:a:1\r\nContent-Length: 5\r\nX-Empty:\r\n\r\n",
        "M-SEARCH * HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: \t Chunked \r\nX: \xC3\xA9\r\n\r\n"}) {
    EXPECT_EQ(ReadWhole(head), Verdict::kWhole) << head;
    size_t bytes = 0;
    EXPECT_EQ(Trickle(head, &bytes), Verdict::kWhole) << head;
    EXPECT_EQ(bytes, head.size());
    RequestHead with_body;
    EXPECT_EQ(with_body.Read(head + "GET / HTTP/1.1\r\n\r\n"), Verdict::kWhole);
    EXPECT_EQ(with_body.bytes(), head.size()) << "what follows is not its own";
    EXPECT_EQ(ReadWhole(head.substr(0, head.size() - 1)), Verdict::kMore);
  }
}

TEST(RequestHeadTest, RefusesAmbiguousHeads) {
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  using namespace std::string_literals;
  for (const std::string& head : {" GET / HTTP/1.1\r\n\r\n"s,
                                  "\r\nGET / HTTP/1.1\r\n\r\n"s,
                                  "GET  / HTTP/1.1\r\n\r\n"s,
                                  "GET\t/ HTTP/1.1\r\n\r\n"s,
                                  "GET / HTTP/1.1 \r\n\r\n"s,
                                  "GET / HTTP/2.0\r\n\r\n"s,
                                  "GET / HTTP/1.10\r\n\r\n"s,
                                  "GET / http/1.1\r\n\r\n"s,
                                  "GET / HTTP/1.1\n\n"s,
                                  "GET / HTTP/1.1\rX"s,
                                  "GET /\x7f HTTP/1.1\r\n\r\n"s,
                                  "GET /\xC3\xA9 HTTP/1.1\r\n\r\n"s,
                                  "GET /\0 HTTP/1.1\r\n\r\n"s,
                                  "G(T / HTTP/1.1\r\n\r\n"s,
                                  "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"s,
                                  "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"s,
                                  "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"s,
                                  "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"s,
                                  post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
                                  post + "Content-Length: 5, 5\r\n\r\n",
                                  post + "Content-Length: +5\r\n\r\n",
                                  post + "Content-Length: -1\r\n\r\n",
                                  post + "Content-Length: 0x5\r\n\r\n",
                                  post + "Content-Length:\r\n\r\n",
                                  post + "Content-Length: 9999999999999999999\r\n\r\n",
                                  post + "Content_Length: 5\r\n\r\n",
                                  post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                                  post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
                                  post + "Transfer-Encoding: identity\r\n\r\n",
                                  post + "Transfer-Encoding: gzip, chunked\r\n\r\n",
                                  post + "Transfer-Encoding: xchunked\r\n\r\n",
                                  post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                                  post + "Transfer-Encoding:\x0b"
                                         "chunked\r\n\r\n",
                                  post + "Transfer-Encoding : chunked\r\n\r\n",
                                  post + "Transfer-Encoding\t: chunked\r\n\r\n",
                                  post + "Transfer_Encoding: chunked\r\n\r\n",
                                  post + "Transfer-Encoding: \"chunked\"\r\n\r\n",
                                  post + " X: y\r\n\r\n",
                                  post + "X: y\r\n z\r\n\r\n",
                                  post + "X: y\nTransfer-Encoding: chunked\r\n\r\n",
                                  post + "X: y\rTransfer-Encoding: chunked\r\n\r\n",
                                  post + "X: a\0b\r\n\r\n"s,
                                  post + ": y\r\n\r\n",
                                  post + "X\r\n\r\n",
                                  post + "X y: z\r\n\r\n",
                                  post + "X\xC3\xA9: z\r\n\r\n",
                                  post + "X: y\r\n\rX"}) {
    EXPECT_EQ(ReadWhole(head), Verdict::kBad) << head;
    size_t bytes = 0;
    EXPECT_EQ(Trickle(head, &bytes), Verdict::kBad) << head;
  }
}

TEST(RequestHeadTest, DetectsTheEndOfTheHead) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  std::string many = start;
  for (int i = 0; i < RequestHead::kMaxFields - 1; ++i) many += "X: y\r\n";
  EXPECT_EQ(ReadWhole(many + "\r\n"), Verdict::kWhole);
  EXPECT_EQ(ReadWhole(many + "X: y\r\n\r\n"), Verdict::kTooLong);
  const std::string filler(RequestHead::kMaxBytes - start.size() - 7, 'x');
  EXPECT_EQ(ReadWhole(start + "X: " + filler + "\r\n\r\n"), Verdict::kWhole);
  EXPECT_EQ(ReadWhole(start + "X: " + filler + "x\r\n\r\n"), Verdict::kTooLong);
  EXPECT_EQ(ReadWhole(std::string(RequestHead::kMaxBytes + 1, 'G')), Verdict::kTooLong);
}

}  // namespace
}  // namespace ringside

// The framing of chunked bodies: good bodies split anywhere, and ambiguous ones.
#include "ws/transport/http/chunk_lines.h"

#include <gtest/gtest.h>

#include <string>

namespace ringside::testing {
namespace {

using ChunkVerdict = ChunkLines::Verdict;

ChunkVerdict ReadInPieces(const std::string& body, size_t piece, uint64_t* bytes = nullptr) {
  ChunkLines lines;
  ChunkVerdict verdict = ChunkVerdict::kMore;
  for (size_t at = 0; at < body.size() && verdict == ChunkVerdict::kMore; at += piece) {
    verdict = lines.Read(std::string_view(body).substr(at, piece));
  }
  if (bytes != nullptr) *bytes = lines.bytes();
  return verdict;
}

TEST(ChunkLinesTest, ReadsBodiesSplitAnywhere) {
  for (const std::string body : {"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "a\r\n0123456789\r\n1\r\n\n\r\n000\r\n\r\n",
                                 "2;a=1\r\n{}\r\n0;b\r\n\r\n", "2;a=\"x\\\"y; z\"\r\n{}\r\n0\r\n\r\n",
                                 "2 ; a = 1 ;b\r\n\r\n\r\n0\r\n\r\n", "0000000000000002\r\n{}\r\n0\r\n\r\n"}) {
    for (size_t piece = 1; piece <= body.size(); ++piece) {
      uint64_t bytes = 0;
      EXPECT_EQ(ReadInPieces(body, piece, &bytes), ChunkVerdict::kWhole) << body << piece;
      EXPECT_EQ(bytes, body.size());
    }
    ChunkLines lines;
    EXPECT_EQ(lines.Read(body + "GET / HTTP/1.1\r\n"), ChunkVerdict::kWhole);
    EXPECT_EQ(lines.bytes(), body.size()) << "the next request is not looked at";
    EXPECT_EQ(ReadInPieces(body.substr(0, body.size() - 1), 1), ChunkVerdict::kMore);
  }
}

TEST(ChunkLinesTest, RefusesAmbiguousInput) {
  for (const std::string body : {"\r\n",
                                 ";a\r\n",
                                 "g\r\n",
                                 "-2\r\n{}",
                                 "+2\r\n{}",
                                 "0x2\r\n{}",
                                 " 2\r\n{}",
                                 "2 \r\n{}",
                                 "2\t\r\n{}",
                                 "2\n{}",
                                 "2\r{}",
                                 "2;\r\n{}",
                                 "2;;a\r\n{}",
                                 "2;a\n{}",
                                 "2;a\rb\r\n{}",
                                 "2;a=\"\n\"\r\n{}",
                                 "2;a=\"\r\n{}\r\n0\r\n\r\n",
                                 "2 2\r\n{}",
                                 "2,2\r\n{}",
                                 "00000000000000002\r\n{}",
                                 "10000000000000002\r\n{}",
                                 "2\r\n{}\n0\r\n\r\n",
                                 "2\r\n{}0\r\n\r\n",
                                 "2\r\n{} \r\n0\r\n\r\n",
                                 "0\r\nX: y\r\n\r\n",
                                 "0\r\n\n",
                                 "0\n\n",
                                 "0\r\n\r\r\n",
                                 "2;a\x01\r\n{}"}) {
    for (size_t piece = 1; piece <= body.size(); ++piece) {
      EXPECT_EQ(ReadInPieces(body, piece), ChunkVerdict::kBad) << body << piece;
    }
    ChunkLines lines;
    lines.Read(body);
    EXPECT_NE(std::string(lines.trouble()), "") << body;
  }
}

TEST(ChunkLinesTest, BoundsTheTotalOfChunkExtensions) {
  const std::string chunk = "1;" + std::string(1'000, 'a') + "\r\nx\r\n";
  ChunkLines lines;
  size_t good = 0;
  while (good < 100 && lines.Read(chunk) == ChunkVerdict::kMore) ++good;
  EXPECT_EQ(good, ChunkLines::kMaxExtensionBytes / 1'001);
}

}  // namespace
}  // namespace ringside::testing

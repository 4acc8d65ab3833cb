// The text of HTTP around the values of ws/transport/http/http.h: targets and queries decoded, answers written out. No
// socket here; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ws/transport/http/http.h"

namespace ringside {

struct HttpTarget {
  std::string authority;  // "host:port" of the absolute form, as written; "" of the other
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
};
/// Splits and percent-decodes a request target: "/path?query", or the absolute form of it. Nothing for a target that is
/// neither, has a bad escape or hides a NUL. Escapes in the path that two readers could take differently (%2F, %5C,
/// %2E, %25, letters and digits, control characters) stay encoded.
std::optional<HttpTarget> ParseTarget(std::string_view target);

struct AnswerStyle {
  enum class Body { kSized, kChunks, kUntilClose };

  bool keep_alive = true;
  Body body = Body::kSized;
  bool without_body = false;  // HEAD
  std::string_view request_id, traceparent;
  std::string_view allow_origin;  // "" = no CORS headers
};
/// An answer's head as it goes onto the wire, and whether the body follows it.
std::string WriteHead(const HttpResponse& response, const AnswerStyle& style);
bool HasBody(const HttpResponse& response, const AnswerStyle& style);
/// The whole answer.
std::string WriteAnswer(const HttpResponse& response, const AnswerStyle& style);

/// 128 random bits as 32 lower-case hexadecimal digits, of which a request's ids are made.
std::string MakeRequestDigits();

}  // namespace ringside

// Text form of the values in ws/transport/http/http.h: decodes targets and queries, serializes responses. Uses no
// sockets.
// THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ws/transport/http/http.h"

namespace ringside {

struct HttpTarget {
  std::string authority;  // "host:port" of an absolute target, as written; "" for an origin-form target
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
};
/// Splits and percent-decodes a request target: "/path?query" or its absolute form. nullopt for any other form, an
/// invalid escape or an encoded NUL. Ambiguous escapes in the path (%2F, %5C, %2E, %25, letters and digits, control
/// characters) stay encoded.
std::optional<HttpTarget> ParseTarget(std::string_view target);

struct AnswerStyle {
  enum class Body { kSized, kChunks, kUntilClose };

  bool keep_alive = true;
  Body body = Body::kSized;
  bool without_body = false;  // HEAD
  std::string_view request_id, traceparent;
  std::string_view allow_origin;  // "" = no CORS headers
};
/// Serializes the head of a response; the style says whether the body follows.
std::string WriteHead(const HttpResponse& response, const AnswerStyle& style);
bool HasBody(const HttpResponse& response, const AnswerStyle& style);
/// Serializes a complete response.
std::string WriteAnswer(const HttpResponse& response, const AnswerStyle& style);

/// 128 random bits as 32 lower-case hexadecimal digits, the basis of a request's ids.
std::string MakeRequestDigits();

}  // namespace ringside

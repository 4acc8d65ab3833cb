// GET requests to web servers: redirects are followed, and bodies of any length are passed on in pieces. Blocking.
// THREAD: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clients/pull/web_url.h"

namespace ringside::client {

/// The settings of all requests of a command.
struct WebAccess {
  std::string token;                 // for requests with `sends_token`; "" = none
  std::string ca_file;               // PEM file of trusted authorities; "" = the system's
  std::chrono::seconds timeout{30};  // longest time without progress
};

struct GetRequest {
  WebUrl url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool sends_token = false;  // to this origin; never after a redirect to another one
};

/// The header of the last response of a chain of redirects.
struct GetHeader {
  int status = 0;
  std::string host;                // that sent it
  std::optional<uint64_t> length;  // of the body
  bool has_end = false;            // a cut body is noticed: it has a length or is chunked
  std::string etag, content_range, retry_after;
  std::string linked_digest;  // SHA-256 of the file as stated by Hugging Face's hub before its redirect; "" = none
};

struct GetHandlers {
  /// Returns a failure to stop. Called once.
  std::function<Outcome<Done>(const GetHeader&)> on_header;
  /// Receives the body's next piece. Returns a failure to stop.
  std::function<Outcome<Done>(std::string_view)> on_body;
};

/// Why a request ended early.
struct GetFailure {
  std::string message;    // a phrase: "the connection to HOST was lost: ..."
  bool is_final = false;  // a retry would fail as well
};

/// std::nullopt once the whole body was passed on.
std::optional<GetFailure> Get(const GetRequest& request, const WebAccess& access, const GetHandlers& handlers);

/// The phrase with a capital letter, unless it begins with a host, and a full stop.
std::string Sentence(std::string phrase);

struct GetAnswer {
  int status = 0;
  std::string body;
};
/// A small text, such as JSON. Fails with a sentence if there is no answer; any status is an answer.
Outcome<GetAnswer> GetText(const GetRequest& request, const WebAccess& access);

}  // namespace ringside::client

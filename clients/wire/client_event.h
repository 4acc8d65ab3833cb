// Encodes the client's socket messages as JSON text: turns, cancel and the conversation verbs. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringside::client {

struct InputMessage {
  std::string role;                      // "user", "assistant", "system", "tool"
  std::string text;                      // UTF-8
  bool complete = true;                  // false: a truncated answer
  std::string reasoning = {};            // for an answer of the server
  std::vector<std::string> images = {};  // data URLs, before the text
};

/// A position in a conversation's history: seq of the last journal record received, and the hash chain up to it.
struct HistoryPosition {
  uint64_t seq = 0;
  std::string chain;
  friend bool operator==(const HistoryPosition&, const HistoryPosition&) = default;
};

/// One response.create.
struct TurnRequest {
  std::string conversation;         // "conv_..."
  std::vector<InputMessage> input;  // empty: answer the existing messages
  std::optional<std::string> instructions;
  std::vector<std::pair<std::string, std::string>> fields;  // further members: wire name, JSON text
  std::string request_id;  // sent as metadata.client_request_id, so that the server recognises a repeated request; "" =
                           // none
};

/// Invalid UTF-8 is replaced by U+FFFD.
std::string EncodeTurn(const TurnRequest& turn);
std::string EncodeCancel(const std::string& response_id);
/// `known`: the server reports whether its history differs from this position.
std::string EncodeResume(const std::string& session, std::optional<uint64_t> epoch, std::optional<uint64_t> after,
                         const std::optional<HistoryPosition>& known);
/// Keeps the first `to` items of the session.
std::string EncodeRewind(const std::string& session, int64_t to);
/// Copies the first `at` items (absent = all).
std::string EncodeFork(const std::string& session, std::optional<int64_t> at);

/// A random id for TurnRequest::request_id.
std::string MakeRequestId();

}  // namespace ringside::client

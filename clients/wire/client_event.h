// What a client says over the socket, as JSON text: turns, cancel and the conversation verbs. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringside::client {

struct InputMessage {
  std::string role;            // "user", "assistant", "system", "tool"
  std::string text;            // UTF-8
  bool complete = true;        // false: an answer that was cut
  std::string reasoning = {};  // of an answer of the server
};

/// How much of a conversation's history was told: its journal's last record, and the chain up to there.
struct HistoryPosition {
  uint64_t seq = 0;
  std::string chain;
  friend bool operator==(const HistoryPosition&, const HistoryPosition&) = default;
};

/// One response.create.
struct TurnRequest {
  std::string conversation;         // "conv_..."
  std::vector<InputMessage> input;  // empty: answer what stands there
  std::optional<std::string> instructions;
  std::vector<std::pair<std::string, std::string>> fields;  // further members: wire name, JSON text
  std::string request_id;  // travels as metadata.client_request_id, so that a repeated request is recognised; "" = none
};

/// Text that is not UTF-8 is sent with replacement characters.
std::string EncodeTurn(const TurnRequest& turn);
std::string EncodeCancel(const std::string& response_id);
/// `known`: the server shall say so if its history is not what was told before.
std::string EncodeResume(const std::string& session, std::optional<uint64_t> epoch, std::optional<uint64_t> after,
                         const std::optional<HistoryPosition>& known);
/// Keeps the first `to` items of the session.
std::string EncodeRewind(const std::string& session, int64_t to);
/// A copy of the first `at` items (absent = all).
std::string EncodeFork(const std::string& session, std::optional<int64_t> at);

/// A random id for TurnRequest::request_id.
std::string MakeRequestId();

}  // namespace ringside::client

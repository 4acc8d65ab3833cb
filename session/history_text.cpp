#include "session/history_text.h"

#include "base/hex.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

// Bytes that never occur in UTF-8, so that no text contains them.
constexpr char kModel = '\xF9', kWindow = '\xFA', kInstructions = '\xFB', kAdapter = '\xFC', kTools = '\xFD',
               kTokens = '\xFE', kMessageEnd = '\xFF', kImages = '\xF8';

void AppendPart(char kind, std::string_view text, std::string* history) {
  history->push_back(kind);
  history->append(text);
  history->push_back(kMessageEnd);
}

std::string Digits(const std::optional<int64_t>& number) { return number ? std::to_string(*number) : ""; }

}  // namespace

void AppendMessage(ChatRole role, std::string_view text, int64_t calls_at, std::string* history) {
  history->push_back(static_cast<char>('0' + static_cast<int>(role)));
  calls_at < 0 ? history->append(text) : history->append(ComparableText(text, calls_at));
  history->push_back(kMessageEnd);
}

void AppendImages(std::span<const ItemImage> images, std::string* history) {
  for (const ItemImage& image : images) {
    if (image.file == nullptr) continue;
    const std::string_view digest(reinterpret_cast<const char*>(image.file->digest.data()), sizeof(Sha256Digest));
    AppendPart(kImages, HexText(digest), history);
  }
}

void AppendAdapter(std::string_view adapter, std::string* history) {
  if (!adapter.empty()) AppendPart(kAdapter, adapter, history);
}

void AppendModel(std::string_view model, std::string* history) {
  if (!model.empty()) AppendPart(kModel, model, history);
}

void AppendWindow(const WindowOverrides& window, std::string* history) {
  if (!window.memory_len && !window.session_len && !window.eviction) return;
  std::optional<int64_t> eviction;
  if (window.eviction) eviction = static_cast<int64_t>(*window.eviction);
  AppendPart(kWindow, Digits(window.memory_len) + ',' + Digits(window.session_len) + ',' + Digits(eviction), history);
}

void AppendHead(const std::optional<std::string>& instructions, std::string_view tools, std::string* history) {
  if (!tools.empty()) AppendPart(kTools, tools, history);
  if (instructions) AppendPart(kInstructions, *instructions, history);
}

void AppendTokens(std::span<const TokenId> tokens, std::string* history) {
  history->push_back(kTokens);
  history->reserve(history->size() + tokens.size() * sizeof(TokenId));
  for (const TokenId token : tokens) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      history->push_back(static_cast<char>(static_cast<uint32_t>(token) >> shift & 0xFF));
    }
  }
}

std::string HistoryText(const TurnSpec& spec) {
  std::string history;
  AppendModel(spec.model, &history);
  AppendAdapter(spec.adapter.value_or(""), &history);
  AppendWindow(spec.window, &history);
  if (spec.raw) {
    AppendTokens(spec.raw->tokens, &history);
    return history;
  }
  AppendHead(spec.instructions, spec.tools ? std::string_view(spec.tools->lines) : "", &history);
  for (const NewItem& item : spec.input) {
    AppendMessage(item.role, item.text, item.calls_at, &history);
    for (const NewImage& image : item.images) AppendImages({&image.image, 1}, &history);
  }
  return history;
}

std::string HistoryPrefix(const TurnSpec& spec) {
  TurnSpec beginning;
  beginning.model = spec.model;
  beginning.adapter = spec.adapter;
  beginning.window = spec.window;
  beginning.instructions = spec.instructions;
  beginning.tools = spec.tools;
  for (const NewItem& item : spec.input) {
    beginning.input.push_back(item);
    if (item.role != ChatRole::kSystem) break;
  }
  return HistoryText(beginning);
}

}  // namespace ringside

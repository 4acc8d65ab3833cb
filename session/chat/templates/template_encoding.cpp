#include <algorithm>
#include <span>

#include "session/chat/templates/chat_template.h"

namespace ringside {
namespace {

// A boundary between two pieces is exact if a special token starts the next one. Otherwise both sides are tokenized as
// one text, and the boundary moves to the first token that starts at or after it.
bool BeginsWithSpecial(const Tokenizer& tokenizer, const TextPiece& piece) {
  if (!piece.markup) return false;
  const std::vector<TokenId> ids = tokenizer.EncodeAll({&piece, 1});
  return !ids.empty() && tokenizer.IsSpecial(ids.front()) && piece.text.starts_with(tokenizer.TokenName(ids.front()));
}

}  // namespace

std::optional<EncodedRendering> EncodeRendering(const Tokenizer& tokenizer, const Rendering& rendering,
                                                int64_t max_tokens) {
  const std::vector<TextPiece>& pieces = rendering.pieces;
  std::vector<size_t> borders = rendering.message_starts;
  borders.push_back(rendering.pinned_pieces);
  std::ranges::sort(borders);
  std::vector<int64_t> first_token(pieces.size() + 1, 0);  // by piece; set at boundaries
  EncodedRendering encoded;
  auto image = rendering.images.begin();  // the next one
  for (size_t begin = 0; begin < pieces.size();) {
    if (image != rendering.images.end() && image->piece == begin) {
      first_token[begin++] = std::ssize(encoded.ids);
      if (std::ssize(image->tokens) > max_tokens - std::ssize(encoded.ids)) return std::nullopt;
      encoded.ids.insert(encoded.ids.end(), image->tokens.begin(), image->tokens.end());
      ++image;
      continue;
    }
    size_t end = begin + 1;
    while (end < pieces.size() && (image == rendering.images.end() || end != image->piece) &&
           !(std::ranges::binary_search(borders, end) && BeginsWithSpecial(tokenizer, pieces[end]))) {
      ++end;
    }
    const std::optional<std::vector<TokenId>> fitting = tokenizer.Encode(
        std::span(pieces).subspan(begin, end - begin), max_tokens - static_cast<int64_t>(encoded.ids.size()));
    if (!fitting) return std::nullopt;
    const std::vector<TokenId>& ids = *fitting;
    size_t token = 0, piece_byte = 0, token_byte = 0;
    for (size_t piece = begin; piece < end; ++piece) {
      while (token < ids.size() && token_byte < piece_byte) {
        const bool special = tokenizer.IsSpecial(ids[token]);
        token_byte += special ? tokenizer.TokenName(ids[token]).size() : tokenizer.TokenBytes(ids[token]).size();
        ++token;
      }
      first_token[piece] = static_cast<int64_t>(encoded.ids.size() + token);
      piece_byte += pieces[piece].text.size();
    }
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    begin = end;
  }
  first_token[pieces.size()] = static_cast<int64_t>(encoded.ids.size());
  for (const size_t start : rendering.message_starts) encoded.message_starts.push_back(first_token[start]);
  encoded.pinned_tokens = first_token[rendering.pinned_pieces];
  return encoded;
}

}  // namespace ringside

#include "session/chat/templates/image_pieces.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringside {
namespace {

void AppendPiece(std::string_view text, bool markup, Rendering* out) {
  if (!text.empty()) out->pieces.push_back({std::string(text), markup});
}

}  // namespace

Status PlaceImages(std::string_view markup, std::string_view placeholder, std::string_view around,
                   std::vector<std::vector<TokenId>> images, Rendering* rendering) {
  // A template that writes no images in this way still gets them.
  size_t at = markup.find(placeholder);
  if (at == markup.npos) {
    markup = placeholder;
    at = 0;
  }
  const std::string before = std::string(markup.substr(0, at)).append(around),
                    after = std::string(around).append(markup.substr(at + placeholder.size()));
  Rendering out{.end = rendering->end};
  std::vector<size_t> moved;  // by old index
  for (const TextPiece& piece : rendering->pieces) {
    moved.push_back(out.pieces.size());
    std::string_view rest = piece.text;
    for (size_t byte = rest.find(kImageByte); byte != rest.npos; byte = rest.find(kImageByte)) {
      AppendPiece(rest.substr(0, byte), piece.markup, &out);
      AppendPiece(before, true, &out);
      if (out.images.size() < images.size()) {
        out.images.push_back({out.pieces.size(), std::move(images[out.images.size()])});
      } else {
        out.images.push_back({});
      }
      out.pieces.push_back({std::string(placeholder), true});
      AppendPiece(after, true, &out);
      rest.remove_prefix(byte + 1);
    }
    AppendPiece(rest, piece.markup, &out);
  }
  moved.push_back(out.pieces.size());
  if (out.images.size() != images.size()) {
    return InvalidArgument("The model's chat template does not write the images of these messages.", "input",
                           "unsupported_value");
  }
  for (const size_t start : rendering->message_starts) out.message_starts.push_back(moved[start]);
  out.pinned_pieces = moved[rendering->pinned_pieces];
  *rendering = std::move(out);
  return Status::Ok();
}

}  // namespace ringside

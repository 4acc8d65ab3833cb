#include "ws/transport/http/chunk_lines.h"

#include <algorithm>

#include "base/hex.h"

namespace ringside {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
/// True unless `c` is a control character.
bool IsText(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != 127); }

}  // namespace

bool ChunkLines::Bad(const char* trouble) {
  trouble_ = trouble;
  return false;
}

ChunkLines::Verdict ChunkLines::Read(std::string_view bytes) {
  while (!bytes.empty() && part_ != Part::kDone) {
    if (part_ == Part::kData && left_ > 0) {
      const uint64_t data = std::min<uint64_t>(left_, bytes.size());
      left_ -= data;
      read_ += data;
      bytes.remove_prefix(data);
      continue;
    }
    if (part_ == Part::kData) part_ = Part::kDataReturn;
    if (!ReadByte(bytes.front())) return Verdict::kBad;
    ++read_;
    bytes.remove_prefix(1);
  }
  return part_ == Part::kDone ? Verdict::kWhole : Verdict::kMore;
}

bool ChunkLines::ReadByte(char c) {
  switch (part_) {
    case Part::kSize:
      return ReadSize(c);
    case Part::kExtension:
    case Part::kQuoted:
    case Part::kEscape:
      return ReadExtension(c);
    case Part::kSizeEnd:
      return Expect(c, '\n', left_ == 0 ? Part::kLastReturn : Part::kData);
    case Part::kDataReturn:
      return Expect(c, '\r', Part::kDataEnd);
    case Part::kDataEnd:
      return Expect(c, '\n', Part::kSize);
    case Part::kLastReturn:
      return c == '\r' ? Expect(c, '\r', Part::kLastEnd) : Bad("Trailers are not accepted.");
    case Part::kLastEnd:
      return Expect(c, '\n', Part::kDone);
    case Part::kData:
    case Part::kDone:
      break;
  }
  return false;
}

bool ChunkLines::Expect(char c, char wanted, Part next) {
  if (c != wanted) return Bad("A chunk and its size each end with a carriage return and a line feed.");
  part_ = next;
  digits_ = 0;
  blank_ = false;
  return true;
}

bool ChunkLines::ReadSize(char c) {
  if (const int digit = HexDigit(c); digit >= 0 && !blank_) {
    if (digits_ == 0) left_ = 0;
    if (++digits_ > kMaxSizeDigits) return Bad("A chunk's size has too many digits.");
    left_ = left_ << 4 | static_cast<uint64_t>(digit);
    return true;
  }
  if (digits_ == 0) return Bad("A chunk does not begin with its size in hexadecimal digits.");
  if (c == '\r' && !blank_) {
    part_ = Part::kSizeEnd;
    return true;
  }
  blank_ = IsBlank(c);
  if (c != ';' && !blank_) return Bad("A chunk's size is followed by what is no extension.");
  if (++extension_bytes_ > kMaxExtensionBytes) return Bad("The extensions of chunks are too long.");
  if (c == ';') part_ = Part::kExtension;
  named_ = false;
  return true;
}

bool ChunkLines::ReadExtension(char c) {
  if (part_ == Part::kExtension && c == '\r' && named_) {
    part_ = Part::kSizeEnd;
    return true;
  }
  if (!IsText(c)) return Bad("A chunk's extension holds a control character, or has no name.");
  if (++extension_bytes_ > kMaxExtensionBytes) return Bad("The extensions of chunks are too long.");
  if (part_ == Part::kEscape) {
    part_ = Part::kQuoted;
  } else if (part_ == Part::kQuoted) {
    part_ = c == '"' ? Part::kExtension : c == '\\' ? Part::kEscape : Part::kQuoted;
  } else if (c == '"') {
    part_ = Part::kQuoted;
  } else if (c == ';') {
    if (!named_) return Bad("A chunk's extension has no name.");
    named_ = false;
  } else if (!IsBlank(c)) {
    named_ = true;
  }
  return true;
}

}  // namespace ringside

#include "ws/transport/http/request_head.h"

#include <algorithm>
#include <cctype>

#include "ws/transport/ascii.h"

namespace ringside {
namespace {

constexpr std::string_view kVersion = "HTTP/1.";
// Length of "transfer-encoding", the longest field name that affects the framing.
constexpr size_t kLongestFramingName = 17;
constexpr size_t kMaxLengthDigits = 18;

bool IsToken(char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || kMarks.find(c) != std::string_view::npos;
}

/// True for a visible ASCII character.
bool IsVisible(char c) { return c > ' ' && c < 127; }

}  // namespace

bool RequestHead::Bad(const char* trouble) {
  trouble_ = trouble;
  return false;
}

RequestHead::Verdict RequestHead::Read(std::string_view head) {
  while (read_ < head.size()) {
    if (read_ == kMaxBytes) return Verdict::kTooLong;
    if (!ReadByte(head[read_])) return fields_ > kMaxFields ? Verdict::kTooLong : Verdict::kBad;
    ++read_;
    if (part_ == Part::kDone) return Verdict::kWhole;
  }
  return Verdict::kMore;
}

bool RequestHead::ReadByte(char c) {
  switch (part_) {
    case Part::kMethod:
      if (c == ' ' && part_bytes_ > 0) {
        part_ = Part::kTarget;
        part_bytes_ = 0;
        return true;
      }
      ++part_bytes_;
      return IsToken(c) || Bad("The request does not begin with a method and a blank.");
    case Part::kTarget:
      if (c == ' ' && part_bytes_ > 0) {
        part_ = Part::kVersion;
        part_bytes_ = 0;
        return true;
      }
      ++part_bytes_;
      return IsVisible(c) || Bad("The request's target holds what no URL does.");
    case Part::kVersion:
      return ReadVersion(c);
    case Part::kLineEnd:
    case Part::kFieldEnd:
      if (c != '\n') return Bad("A carriage return stands alone.");
      if (part_ == Part::kFieldEnd && !EndField()) return false;
      part_ = Part::kFieldStart;
      return true;
    case Part::kFieldStart:
      return StartField(c);
    case Part::kName:
      if (c == ':') return EndName();
      if (name_.size() <= kLongestFramingName) name_ += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return IsToken(c) || Bad("A header's name holds what no name does.");
    case Part::kValue:
      if (c == '\r') {
        part_ = Part::kFieldEnd;
        return true;
      }
      value_ += c;
      return c == '\t' || static_cast<unsigned char>(c) >= ' ' ? c != 127 || Bad("A header holds a control character.")
                                                               : Bad("A header holds a control character.");
    case Part::kHeadEnd:
      part_ = Part::kDone;
      return c == '\n' || Bad("A carriage return stands alone.");
    case Part::kDone:
      break;
  }
  return false;
}

bool RequestHead::ReadVersion(char c) {
  if (part_bytes_ < kVersion.size()) {
    if (c != kVersion[part_bytes_++]) return Bad("Only HTTP/1.0 and HTTP/1.1 are spoken here.");
    return true;
  }
  if (part_bytes_++ == kVersion.size())
    return c == '0' || c == '1' || Bad("Only HTTP/1.0 and HTTP/1.1 are spoken here.");
  part_ = Part::kLineEnd;
  return c == '\r' || Bad("The request's first line does not end as one.");
}

bool RequestHead::StartField(char c) {
  if (c == '\r') {
    part_ = Part::kHeadEnd;
    if (encodings_ > 0 && lengths_ > 0) return Bad("A request has a Content-Length or a Transfer-Encoding, not both.");
    return true;
  }
  if (c == ' ' || c == '\t') return Bad("A header is one line.");
  if (++fields_ > kMaxFields) return false;
  name_.clear();
  value_.clear();
  part_ = Part::kName;
  return ReadByte(c);
}

bool RequestHead::EndName() {
  if (name_.empty()) return Bad("A header has no name.");
  part_ = Part::kValue;
  return true;
}

bool RequestHead::EndField() {
  // Some servers treat '_' and '-' alike.
  std::string name = name_;
  std::replace(name.begin(), name.end(), '_', '-');
  const bool framing = name == "content-length" || name == "transfer-encoding" || name == "host";
  if (!framing) return true;
  if (name != name_) return Bad("A header's name looks like another's.");
  const std::string_view value = TrimBlanks(value_);
  if (name == "host") {
    if (++hosts_ > 1) return Bad("A request must have exactly one Host header.");
    const bool visible = std::all_of(value.begin(), value.end(), IsVisible);
    return (visible && value.find_first_of(",/@?#\\") == std::string_view::npos) ||
           Bad("The Host header holds what no host's name does.");
  }
  if (name == "content-length") {
    if (++lengths_ > 1) return Bad("A request has at most one Content-Length.");
    const bool digits = std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    return (digits && !value.empty() && value.size() <= kMaxLengthDigits) || Bad("A Content-Length is a number.");
  }
  std::string encoding(value);
  for (char& c : encoding) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (++encodings_ > 1 || encoding != "chunked")
    return Bad("The only Transfer-Encoding that is accepted is chunked, once.");
  return true;
}

}  // namespace ringside

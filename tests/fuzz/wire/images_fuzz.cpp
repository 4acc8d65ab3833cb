// Bytes about images from outside: sources in requests, replies of the decoder's process, records of a journal or an
// export. Any bytes are read within their limits or refused.
#include "base/image_reply.h"
#include "base/limits.h"
#include "session/image_records.h"
#include "session/pictures/image_source.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  const auto reply = EncodeImageReply({ImageReply::kDecoded, 16, 12});
  const ImageFile file{.bytes = "bytes", .width = 2, .height = 3, .digest = Sha256("bytes")};
  return {"data:image/png;base64,iVBORw0KGgo=",
          "DATA:;base64,AAAA",
          "data:image/svg+xml;utf8,<svg/>",
          "https://example.com/a.png",
          "iVBORw0KGgo=",
          std::string(reply.begin(), reply.end()),
          Encode(file).payload,
          ""};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool base64 : {false, true}) {
    const Result<std::string> bytes = ReadImageSource(text, base64, "image_url");
    Require(bytes.ok() == bytes.status().ok(), "one of both");
    if (!bytes.ok()) {
      Require(bytes.status().code() == StatusCode::kInvalidArgument, "a typed error");
      Require(bytes.status().param() == "image_url", "that names the field");
      continue;
    }
    Require(!bytes->empty() && bytes->size() <= static_cast<size_t>(limits::kMaxImageFileBytes) + 3,
            "within its limit");
    Require(bytes->size() <= size, "base64 is longer than its bytes");
  }

  constexpr int64_t kMostPixels = 1 << 20;
  if (const auto header = ParseImageReply({data, size}, kMostPixels)) {
    const int64_t pixels = int64_t{header->width} * header->height;
    Require(pixels <= kMostPixels, "no more pixels than allowed");
    Require((pixels > 0) == (header->status == ImageReply::kDecoded), "a picture only if it was decoded");
    const auto again = EncodeImageReply(*header);
    Require(size == again.size() && again[4] == data[4], "a reply is 16 bytes");
  }

  ImageFiles files;
  if (files.Add(text, /*checked=*/true).ok()) {
    Require(size > sizeof(Sha256Digest), "an image has a digest");
  }
  return 0;
}

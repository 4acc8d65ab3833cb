// ringside-image-decoder PIXELS MEMORY_BYTES CPU_SECONDS FILE_BYTES: decodes one image file from standard input, within
// these limits and in a sandbox, and writes the reply (base/image_reply.h) to standard output. Started by the server
// for each image: a fault in a decoding library reaches neither the server nor another image.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <optional>

#include "tools/image_decoder/decoded_image.h"
#include "tools/image_decoder/sandbox.h"

namespace ringside::decoder {
namespace {

constexpr int kUsage = 64, kNoSandbox = 70, kNoOutput = 74;  // exit statuses, as in sysexits.h

std::optional<int64_t> ParseLimit(const char* text) {
  int64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end || value <= 0) return std::nullopt;
  return value;
}

/// Reads the whole file; nullopt above `most` bytes.
std::optional<std::vector<uint8_t>> ReadFile(size_t most) {
  std::vector<uint8_t> file;
  while (true) {
    const size_t had = file.size();
    file.resize(std::min(most + 1, had + (size_t{256} << 10)));
    const ssize_t got = read(STDIN_FILENO, file.data() + had, file.size() - had);
    file.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return file;
    if (file.size() > most) return std::nullopt;
  }
}

bool WriteAll(const uint8_t* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = write(STDOUT_FILENO, bytes, count);
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<size_t>(written);
  }
  return true;
}

DecodedImage ReadAndDecode(int64_t max_pixels, size_t most_bytes) {
  try {
    const std::optional<std::vector<uint8_t>> file = ReadFile(most_bytes);
    return file ? Decode(*file, max_pixels) : Failed(ImageReply::kTooLarge);
  } catch (const std::bad_alloc&) {
    return Failed(ImageReply::kOutOfMemory);
  }
}

int Main(int count, char** arguments) {
  std::optional<int64_t> limits[4];
  if (count != 5) return kUsage;
  for (int i = 0; i < 4; ++i) {
    limits[i] = ParseLimit(arguments[i + 1]);
    if (!limits[i]) return kUsage;
  }
  if (!EnterSandbox({.memory_bytes = *limits[1], .cpu_seconds = *limits[2]})) return kNoSandbox;
  const DecodedImage image = ReadAndDecode(*limits[0], static_cast<size_t>(*limits[3]));
  const auto header = EncodeImageReply(image.header);
  const bool written = WriteAll(header.data(), header.size()) && WriteAll(image.rgb.data(), image.rgb.size());
  return written ? 0 : kNoOutput;
}

}  // namespace
}  // namespace ringside::decoder

int main(int count, char** arguments) { _exit(ringside::decoder::Main(count, arguments)); }

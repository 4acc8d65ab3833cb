#include "engine/model/weights/digest.h"

#define XXH_STATIC_LINKING_ONLY  // declares the state as a complete type
#include <xxhash.h>

#include <cstring>

namespace ringside {

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::AddBytes(const void* data, size_t bytes) { XXH3_128bits_update(&state_->hash, data, bytes); }

void Digest::AddText(std::string_view text) {
  AddNumber(static_cast<int64_t>(text.size()));
  AddBytes(text.data(), text.size());
}

void Digest::AddNumber(int64_t value) { AddBytes(&value, sizeof(value)); }

void Digest::AddFloat(double value) { AddBytes(&value, sizeof(value)); }

std::array<uint8_t, 16> Digest::Get() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
  std::array<uint8_t, 16> out;
  std::memcpy(out.data(), canonical.digest, out.size());
  return out;
}

}  // namespace ringside

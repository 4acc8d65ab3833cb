// How long a test waits for an expected event.
#pragma once

#include <chrono>
#include <cstdlib>

namespace ringside {

// A hang is a failure; slowness, as under a sanitizer, is not.
inline std::chrono::seconds Patience() {
  const char* seconds = std::getenv("TEST_PATIENCE_S");
  return std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 120);
}

}  // namespace ringside

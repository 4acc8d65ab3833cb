#include "engine/token_sink.h"

namespace ringside {

const char* CacheSourceName(CacheSource source) {
  switch (source) {
    case CacheSource::kNew:
      return "new";
    case CacheSource::kSlot:
      return "slot";
    case CacheSource::kHost:
      return "host";
    case CacheSource::kDisk:
      return "disk";
    case CacheSource::kRecomputed:
      return "recomputed";
  }
  return "unknown";
}

}  // namespace ringside

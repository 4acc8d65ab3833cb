#include "ws/app/app_readiness.h"

#include <fmt/format.h>

namespace ringside {

std::string WorkersTrouble(const WorkerPoolStats& workers) {
  if (workers.stalled_ms >= kLongestStallMs) {
    return fmt::format("no worker has been free for {} s", workers.stalled_ms / 1000);
  }
  if (workers.longest_call_ms < kLongestCallMs) return "";
  return fmt::format("a worker has been busy with one request for {} s", workers.longest_call_ms / 1000);
}

std::string StoreTrouble(const Status& check, const JournalStats& stats) {
  if (check.reason() == "storage_full") return "the disk is full";
  if (!check.ok()) return check.code() == StatusCode::kIo ? "the disk has failed" : "the store cannot be written";
  if (stats.writing_ms < kLongestWriteMs) return "";
  return fmt::format("the disk has not finished a write for {} s", stats.writing_ms / 1000);
}

}  // namespace ringside

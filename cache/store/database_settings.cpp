#include "cache/store/database_settings.h"

#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include <cstdarg>
#include <memory>

namespace ringside {
namespace {

class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

}  // namespace

void SetCommon(rocksdb::Options* options) {
  // The default, kPointInTimeRecovery, silently drops every synced record after a damaged one.
  options->wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options->compression = rocksdb::kNoCompression;
  options->max_background_jobs = 2;
  options->info_log = std::make_shared<NoLog>();
  options->max_log_file_size = size_t{1} << 20;
  options->stats_dump_period_sec = 0;
  options->stats_persist_period_sec = 0;
}

bool IsInUse(const rocksdb::Status& status) {
  return status.IsIOError() && status.ToString().find("lock") != std::string::npos;
}

}  // namespace ringside

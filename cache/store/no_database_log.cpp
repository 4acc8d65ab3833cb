#include "cache/store/no_database_log.h"

#include <rocksdb/env.h>

#include <cstdarg>

namespace ringside {
namespace {

class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

}  // namespace

std::shared_ptr<rocksdb::Logger> NoDatabaseLog() { return std::make_shared<NoLog>(); }

}  // namespace ringside

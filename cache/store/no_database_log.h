// Disables RocksDB's own log file: on a full disk its second failed write would abort the process. THREAD: any.
#pragma once

#include <memory>

namespace rocksdb {
class Logger;
}

namespace ringside {

/// For rocksdb::Options::info_log.
std::shared_ptr<rocksdb::Logger> NoDatabaseLog();

}  // namespace ringside

// Settings of all RocksDB databases. THREAD: any.
#pragma once

namespace rocksdb {
struct Options;
class Status;
}  // namespace rocksdb

namespace ringside {

/// Sets what all databases have in common: no compression, a log whose torn end is cut off, two background jobs, no
/// statistics, and no log file of RocksDB's own: on a full disk its second failed write would abort the process.
void SetCommon(rocksdb::Options* options);
/// True if an open failed because another process has the database.
bool IsInUse(const rocksdb::Status& status);

}  // namespace ringside

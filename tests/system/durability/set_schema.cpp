// Makes a store look as if another version of the server had written it: set_schema FOLDER SCHEMA, while no server
// runs.
#include <cstdio>

#include "session/journal/journal_format.h"
#include "session/journal/rocksdb_log.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  ringside::JournalOptions options;
  options.path = argv[1];
  auto log = ringside::OpenRocksDbLog(options, {});
  if (!log.ok()) {
    std::fprintf(stderr, "%s\n", log.status().ToString().c_str());
    return 1;
  }
  const auto set = (*log)->Commit({{ringside::RowChange::Kind::kPut, ringside::journal_format::kSchemaKey, argv[2]}});
  if (!set.ok()) std::fprintf(stderr, "%s\n", set.ToString().c_str());
  return set.ok() ? 0 : 1;
}

#include "session/journal/delta_log.h"

#include <rocksdb/db.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/open_files.h"
#include "cache/store/database_settings.h"
#include "session/journal/journal_format.h"

namespace ringside {
namespace {

namespace format = journal_format;

constexpr std::string_view kProcessRow = "process";  // incarnation, id of the machine's start
constexpr size_t kNumberBytes = 8;

Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return Status::Ok();
  const std::string text = "answers' log: " + status.ToString();
  if (IsInUse(status)) return {StatusCode::kBusy, text};
  return status.IsCorruption() ? Corruption(text) : IoError(text);
}

/// Changes with each start of the machine; empty if unknown.
std::string MachineStart() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options;
  SetCommon(&options);
  options.create_if_missing = true;
  options.write_buffer_size = size_t{8} << 20;
  options.max_open_files = ShareOfOpenFiles(32, 16, 64);
  return options;
}

}  // namespace

DeltaLog::DeltaLog(const std::optional<SealKey>& master)
    : key_(master ? DataKey(DeriveKey(*master, "answers")) : std::nullopt) {}

Result<std::unique_ptr<DeltaLog>> DeltaLog::Open(const std::string& path, const std::optional<SealKey>& master) {
  auto log = std::unique_ptr<DeltaLog>(new DeltaLog(master));
  Status opened = log->OpenFolder(path);
  if (opened.code() == StatusCode::kCorruption) {
    LogWarning("{}: text of interrupted answers is lost", opened.message());
    std::error_code error;
    std::filesystem::remove_all(path, error);
    opened = log->OpenFolder(path);
  }
  RETURN_IF_ERROR(opened);
  log->thread_ = std::thread([raw = log.get()] { raw->Run(); });
  return log;
}

Status DeltaLog::OpenFolder(const std::string& path) {
  rocksdb::DB* db = nullptr;
  try {
    RETURN_IF_ERROR(ToStatus(rocksdb::DB::Open(DatabaseOptions(), path, &db)));
  } catch (const std::exception& error) {
    return Corruption(std::string("answers' log: ") + error.what());
  }
  db_.reset(db);
  std::string process;
  const rocksdb::Status read = db_->Get(rocksdb::ReadOptions(), std::string(kProcessRow), &process);
  if (!read.ok() && !read.IsNotFound()) return ToStatus(read);
  const auto incarnation = format::DecodeNumber(std::string_view(process).substr(0, kNumberBytes));
  if (incarnation && !MachineStart().empty() && process.substr(kNumberBytes) == MachineStart())
    predecessor_ = static_cast<int64_t>(*incarnation);
  return Status::Ok();
}

DeltaLog::~DeltaLog() { Close(); }

void DeltaLog::Close() {
  closing_ = true;
  queue_.Close();
  if (thread_.joinable()) thread_.join();
}

Result<std::vector<DeltaLog::Unfinished>> DeltaLog::ReadUnfinished() const {
  std::map<std::string, Unfinished> found;
  const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(rocksdb::ReadOptions()));
  for (row->Seek(rocksdb::Slice(&format::kRecords, 1)); row->Valid(); row->Next()) {
    const auto key = format::ParseSessionKey(row->key().ToStringView());
    const auto number = key ? format::ParseSeq(key->rest) : std::nullopt;
    const auto record = format::DecodeRecord(row->value().ToStringView());
    if (!number || !record || record->payload.size() < kNumberBytes) continue;
    std::string session(key->session);
    auto payload = LoadPayload(key_, session, *number, record->type, record->payload.substr(kNumberBytes));
    if (!payload.ok()) continue;  // sealed with a former key
    Unfinished& one = found[session];
    one.after = {*format::DecodeNumber(record->payload.substr(0, kNumberBytes)), record->chain};
    one.records.push_back({record->type, *std::move(payload)});
    one.session = std::move(session);
  }
  RETURN_IF_ERROR(ToStatus(row->status()));
  std::vector<Unfinished> out;
  for (auto& [session, one] : found) out.push_back(std::move(one));
  return out;
}

Status DeltaLog::Begin(int64_t incarnation) {
  rocksdb::WriteBatch batch;
  batch.DeleteRange(std::string(1, format::kRecords), std::string(1, format::kRecords + 1));
  batch.Put(std::string(kProcessRow), format::EncodeNumber(static_cast<uint64_t>(incarnation)) + MachineStart());
  return ToStatus(db_->Write(rocksdb::WriteOptions(), &batch));
}

void DeltaLog::Append(const std::string& session, const JournalPosition& after, const JournalRecord& record,
                      std::function<void()> done) {
  const uint64_t number = next_++;
  const std::string payload =
      format::EncodeNumber(after.seq) + StorePayload(key_, session, number, record.type, record.payload);
  queue_.PushUrgent({.row = format::RecordKey(session, number),
                     .value = format::EncodeRecord({record.type, payload}, after.chain),
                     .done = std::move(done)});
}

void DeltaLog::Erase(const std::string& session) { queue_.PushUrgent({.erased = session}); }

void DeltaLog::Post(std::function<void()> done) { queue_.PushUrgent({.done = std::move(done)}); }

bool DeltaLog::Flush(std::optional<std::chrono::milliseconds> most) {
  const auto reached = std::make_shared<std::promise<void>>();
  Post([reached] { reached->set_value(); });
  std::future<void> flushed = reached->get_future();
  if (most) return flushed.wait_for(*most) == std::future_status::ready;
  flushed.wait();
  return true;
}

void DeltaLog::Run() {
  for (;;) {
    std::vector<Step> steps = queue_.Drain(true);
    if (steps.empty()) return;  // closed
    Write(steps);
    for (Step& step : steps) {
      if (step.done && (step.row.empty() || WaitToDeliver())) step.done();
    }
  }
}

void DeltaLog::Write(const std::vector<Step>& steps) {
  if (failed_) return;  // rows after one that is missing would leave a hole in the text
  rocksdb::WriteBatch batch;
  for (const Step& step : steps) {
    if (!step.row.empty()) batch.Put(step.row, step.value);
    if (!step.erased.empty()) batch.DeleteRange(format::RecordKey(step.erased, 0), format::RecordsEnd(step.erased));
  }
  if (batch.Count() == 0) return;
  const Status written = ToStatus(db_->Write(rocksdb::WriteOptions(), &batch));
  failed_ = !written.ok();
  if (failed_) LogError("{}: should this process end by a fault, running answers lose their text", written.message());
}

bool DeltaLog::WaitToDeliver() const {
  constexpr std::chrono::milliseconds kPause{5};
  for (;;) {
    const Delivery delivery = delivery_ ? delivery_() : Delivery::kNow;
    if (delivery != Delivery::kLater || closing_) return delivery == Delivery::kNow;
    std::this_thread::sleep_for(kPause);
  }
}

Status DeltaLog::Purge() {
  RETURN_IF_ERROR(ToStatus(db_->Flush(rocksdb::FlushOptions())));
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  return ToStatus(db_->CompactRange(options, nullptr, nullptr));
}

}  // namespace ringside

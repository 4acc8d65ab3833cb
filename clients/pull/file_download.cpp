#include "clients/pull/file_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "clients/models/model_list.h"
#include "clients/pull/refusal.h"

namespace ringside::client {
namespace {

using Digest = ExpectedDigest::Kind;

constexpr size_t kReadBytes = 1 << 20;
constexpr std::chrono::seconds kLongestPause{60};

/// "bytes 100-199/200", "bytes */200".
struct ContentRange {
  std::optional<uint64_t> first, total;
};
ContentRange ReadContentRange(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end == digits.data()) return std::nullopt;
    return value;
  };
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || slash == std::string_view::npos) return {};
  return {number(text.substr(kUnit.size())), number(text.substr(slash + 1))};
}

std::string SystemError(const std::string& what, const std::string& path) {
  return "Cannot " + what + " " + path + ": " + std::strerror(errno) + ".";
}

/// One file, over several requests.
class FileDownload {
 public:
  FileDownload(const RemoteFile& file, const DownloadOrigin& origin, std::string path, const DownloadOptions& options,
               ProgressLine& progress)
      : file_(file),
        origin_(origin),
        path_(std::move(path)),
        options_(options),
        progress_(progress),
        total_(file.size),
        expected_(file.digest),
        digest_(MakeDigest()) {}
  ~FileDownload() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDownload(const FileDownload&) = delete;
  FileDownload& operator=(const FileDownload&) = delete;

  Outcome<Done> Run() {
    const Outcome<Done> open = OpenPart();
    if (!open) return open;
    resumed_ = done_ > 0;
    progress_.Start(file_.name, done_, total_);
    for (int failures = 0;;) {
      const uint64_t before = done_;
      std::optional<GetFailure> stop = total_ && done_ == *total_ ? std::nullopt : Attempt();
      if (!stop) stop = Verify();
      if (!stop) break;
      failures = done_ > before ? 1 : failures + 1;
      if (stop->is_final || failures > options_.retries) return GiveUp(*stop);
      Pause(*stop, failures);
    }
    progress_.Finish();
    if (::fsync(fd_) != 0) return Failure{SystemError("write", path_)};
    return Done{};
  }

 private:
  FileDigest MakeDigest() const {
    return FileDigest(expected_.kind == Digest::kNone ? Digest::kSha256 : expected_.kind, file_.size.value_or(0));
  }

  /// Opens the file and reads the existing part.
  Outcome<Done> OpenPart() {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) return Failure{SystemError("create", path_)};
    std::ifstream(EtagPath()) >> etag_;
    struct stat facts {};
    ::fstat(fd_, &facts);
    const auto bytes = static_cast<uint64_t>(facts.st_size);
    // Without a version or a digest, old and new bytes could be of different files.
    const bool usable = expected_.kind != Digest::kNone || !etag_.empty();
    if (!usable || (total_ && bytes > *total_)) return Restart();
    std::string piece(kReadBytes, '\0');
    while (done_ < bytes) {
      const ssize_t got = ::read(fd_, piece.data(), piece.size());
      if (got <= 0) return Failure{SystemError("read", path_)};
      digest_.Update({piece.data(), static_cast<size_t>(got)});
      done_ += static_cast<uint64_t>(got);
    }
    return Done{};
  }

  Outcome<Done> Restart() {
    if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) return Failure{SystemError("write", path_)};
    done_ = 0;
    resumed_ = false;
    digest_ = MakeDigest();
    KeepEtag("");
    return Done{};
  }

  std::string EtagPath() const { return path_ + ".etag"; }
  /// Only a strong one proves that two responses have the same bytes.
  void KeepEtag(const std::string& etag) {
    etag_ = etag.starts_with('"') && etag.find_first_of(" \r\n") == std::string::npos ? etag : "";
    std::error_code ignored;
    if (etag_.empty()) {
      std::filesystem::remove(EtagPath(), ignored);
    } else {
      std::ofstream(EtagPath(), std::ios::trunc) << etag_;
    }
  }

  std::optional<GetFailure> Attempt() {
    GetRequest request{.url = file_.url, .sends_token = origin_.is_on_hub};
    ranged_ = done_ > 0;
    if (ranged_) request.headers.emplace_back("Range", "bytes=" + std::to_string(done_) + "-");
    if (ranged_ && !etag_.empty()) request.headers.emplace_back("If-Range", etag_);
    retryable_ = complete_ = false;
    pause_ = {};
    auto stop = Get(request, options_.access,
                    {[this](const GetHeader& header) { return TakeHeader(header); },
                     [this](std::string_view piece) { return TakeBody(piece); }});
    if (stop && retryable_) stop->is_final = false;
    if (!stop && total_ && done_ < *total_) return GetFailure{"the connection to " + host_ + " ended early"};
    return stop;
  }

  Outcome<Done> TakeHeader(const GetHeader& header) {
    host_ = header.host;
    if (expected_.kind == Digest::kNone && !header.linked_digest.empty()) {
      expected_ = {Digest::kSha256, header.linked_digest};
    }
    if (header.status == 200) return TakeWhole(header);
    const ContentRange range = ReadContentRange(header.content_range);
    if (header.status == 206 && ranged_) return TakeRange(range);
    if (header.status == 416 && ranged_) {
      complete_ = range.total == done_ && (!total_ || total_ == done_);
      if (complete_) return Done{};
      return RetryFromStart("the file on " + host_ + " has changed");
    }
    retryable_ = IsTemporary(header.status);
    int64_t seconds = 0;
    std::from_chars(header.retry_after.data(), header.retry_after.data() + header.retry_after.size(), seconds);
    pause_ = std::clamp(std::chrono::seconds(seconds), std::chrono::seconds(0), kLongestPause);
    return Failure{DescribeRefusal(header.status, host_, file_.name + " of " + origin_.model, origin_.is_on_hub,
                                   !options_.access.token.empty())};
  }

  Outcome<Done> TakeWhole(const GetHeader& header) {
    // The server ignores ranges, or the file has changed.
    if (done_ > 0) {
      const Outcome<Done> restarted = Restart();
      if (!restarted) return restarted;
    }
    if (file_.size && header.length && *header.length != *file_.size) {
      return Failure{host_ + " sends " + std::to_string(*header.length) + " bytes for " + file_.name + ", which has " +
                     std::to_string(*file_.size)};
    }
    if (!file_.size && !header.has_end) {
      return Failure{host_ + " does not state the length of " + file_.name + ", so a cut file could not be noticed"};
    }
    if (!file_.size) total_ = header.length;
    KeepEtag(header.etag);
    return CheckSpace(std::filesystem::path(path_).parent_path().string(), total_.value_or(0));
  }

  Outcome<Done> TakeRange(const ContentRange& range) {
    if (range.first != done_ || (file_.size && range.total && range.total != file_.size)) {
      return RetryFromStart(host_ + " answers with another range than requested");
    }
    if (!file_.size) total_ = range.total;
    return CheckSpace(std::filesystem::path(path_).parent_path().string(), total_.value_or(done_) - done_);
  }

  Failure RetryFromStart(const std::string& why) {
    const Outcome<Done> restarted = Restart();
    retryable_ = restarted.ok();
    return restarted.ok() ? Failure{why} : restarted.failure();
  }

  Outcome<Done> TakeBody(std::string_view piece) {
    if (complete_) return Done{};  // the text of a 416
    if (total_ && piece.size() > *total_ - done_) {
      const uint64_t stated = *total_;
      const Outcome<Done> restarted = Restart();
      if (!restarted) return restarted;
      return Failure{host_ + " sends more than the " + std::to_string(stated) + " bytes of " + file_.name};
    }
    digest_.Update(piece);
    while (!piece.empty()) {
      const ssize_t wrote = ::write(fd_, piece.data(), piece.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return WriteFailed();
      piece.remove_prefix(static_cast<size_t>(wrote));
      done_ += static_cast<uint64_t>(wrote);
    }
    progress_.Advance(done_, total_);
    return Done{};
  }

  Failure WriteFailed() const {
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return Failure{SystemError("write", path_)};
    return Failure{"The disk is full: " + path_ + " has " + DescribeBytes(done_) +
                   (total_ ? " of " + DescribeBytes(*total_) : "") + ". Make room and pull again: it continues there"};
  }

  std::optional<GetFailure> Verify() {
    const std::string digest = digest_.Finish();
    if (expected_.kind == Digest::kNone || digest == expected_.hex) return std::nullopt;
    const bool mixed = resumed_;  // the older part may belong to another version
    const Outcome<Done> restarted = Restart();
    if (!restarted) return GetFailure{restarted.failure().message, true};
    return GetFailure{"the digest of " + file_.name + " is " + digest + ", but " + origin_.model + " states " +
                          expected_.hex + ": the bytes are deleted",
                      !mixed};
  }

  Failure GiveUp(const GetFailure& stop) const {
    std::string sentence = Sentence(stop.message);
    if (!stop.is_final && done_ > 0) {
      sentence += " " + DescribeBytes(done_) + " are kept; pull again to continue.";
    }
    return Failure{sentence};
  }

  void Pause(const GetFailure& stop, int failures) const {
    const auto doubled = std::chrono::seconds(1 << std::min(failures - 1, 5));
    const auto pause = std::max(pause_, doubled);
    progress_.Note(Sentence(stop.message) + " Retrying in " + std::to_string(pause.count()) + " s.");
    std::this_thread::sleep_for(pause);
  }

  const RemoteFile& file_;
  const DownloadOrigin& origin_;
  const std::string path_;
  const DownloadOptions& options_;
  ProgressLine& progress_;
  std::optional<uint64_t> total_;
  ExpectedDigest expected_;
  FileDigest digest_;  // of the first done_ bytes
  int fd_ = -1;
  uint64_t done_ = 0;
  bool resumed_ = false;  // a part is from an earlier call
  std::string etag_;      // of the bytes in the file; "" = unknown
  // The current request.
  std::string host_;
  bool ranged_ = false, retryable_ = false, complete_ = false;
  std::chrono::seconds pause_{0};
};

}  // namespace

Outcome<Done> DownloadFile(const RemoteFile& file, const DownloadOrigin& origin, const std::string& path,
                           const DownloadOptions& options, ProgressLine& progress) {
  return FileDownload(file, origin, path, options, progress).Run();
}

Outcome<Done> CheckSpace(const std::string& folder, uint64_t bytes) {
  struct statvfs facts {};
  if (::statvfs(folder.c_str(), &facts) != 0) return Done{};  // the writes will fail, if they do
  const uint64_t free = static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize;
  if (bytes <= free) return Done{};
  return Failure{"The download needs " + DescribeBytes(bytes) + " more in " + folder + ", where " +
                 DescribeBytes(free) + " are free."};
}

}  // namespace ringside::client

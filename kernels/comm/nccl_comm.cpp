// Ranks whose devices communicate through NCCL. The communicator is nonblocking: calls in progress are polled with a
// timeout. A watchdog thread measures the waits of the rank's own thread for its stream, and aborts the communicator
// when a rank fails to respond. That ends NCCL's kernels, which would otherwise wait forever.
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>

#include "kernels/ranks/stream_comm.h"

namespace ringside {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(20);  // polling interval of the watchdog
constexpr auto kLeave = std::chrono::seconds(5);       // timeout for a communicator to release its memory

// NVLink multicast sums in the switch's own order, and is not available on hosts shared by several programs. Set before
// any thread can read the environment; an existing setting is kept.
const int multicast_off = setenv("NCCL_NVLS_ENABLE", "0", 0);

ncclDataType_t TypeOf(DType dtype) {
  return dtype == DType::kF16 ? ncclFloat16 : dtype == DType::kBF16 ? ncclBfloat16 : ncclFloat32;
}

class NcclComm final : public StreamComm {
 public:
  NcclComm(Comm& group, void* stream) : group_(group), stream_(static_cast<cudaStream_t>(stream)) {}
  ~NcclComm() override {
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_one();
    if (watch_.joinable()) watch_.join();
  }

  Status Start() {
    struct Invitation {
      ncclUniqueId id = {};
      ncclResult_t result = ncclSuccess;
    } invitation;
    if (group_.rank() == 0) invitation.result = ncclGetUniqueId(&invitation.id);
    group_.Broadcast(&invitation, sizeof(invitation), 0);
    RETURN_IF_ERROR(group_.status());
    if (invitation.result != ncclSuccess) return Unavailable(Says("ncclGetUniqueId", invitation.result));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, group_.ranks(), invitation.id, group_.rank(), &config);
    watch_ = std::thread([this] { Watch(); });
    Settle("ncclCommInitRankConfig", result);
    return status();
  }

  void AllReduceSum(void* data, int64_t count, DType dtype) override {
    if (failed_) return;
    Settle("ncclAllReduce",
           ncclAllReduce(data, data, static_cast<size_t>(count), TypeOf(dtype), ncclSum, comm_, stream_));
  }

  void AllGather(void* all, size_t bytes) override {
    if (failed_) return;
    const auto* own = static_cast<const std::byte*>(all) + static_cast<size_t>(group_.rank()) * bytes;
    Settle("ncclAllGather", ncclAllGather(own, all, bytes, ncclInt8, comm_, stream_));
  }

  void Send(const void* data, size_t bytes, int to) override {
    if (failed_) return;
    Settle("ncclSend", ncclSend(data, bytes, ncclInt8, to, comm_, stream_));
  }

  void Receive(void* data, size_t bytes, int from) override {
    if (failed_) return;
    Settle("ncclRecv", ncclRecv(data, bytes, ncclInt8, from, comm_, stream_));
  }

  void BeginWait() override { waits_since_ = Clock::now().time_since_epoch().count(); }
  void EndWait() override { waits_since_ = 0; }

  Status status() const override {
    if (!failed_) return Status::Ok();
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::string Says(const char* call, ncclResult_t result) const {
    return fmt::format("{}: {}: {}", call, ncclGetErrorString(result), ncclGetLastError(comm_));
  }
  std::string Late() const { return fmt::format("a rank did not respond within {} ms", group_.timeout().count()); }

  /// Waits until a call has completed its host part.
  void Settle(const char* call, ncclResult_t result) {
    const auto began = Clock::now();
    while (result == ncclInProgress && !failed_) {
      const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
      if (asked != ncclSuccess) result = asked;
      if (result != ncclInProgress) break;
      if (Clock::now() - began > group_.timeout()) return Fail(fmt::format("{}: {}", call, Late()));
      std::this_thread::yield();
    }
    if (result != ncclSuccess && result != ncclInProgress) Fail(Says(call, result));
  }

  void Fail(const std::string& what) {
    {
      std::lock_guard lock(mutex_);
      if (!failed_) failure_ = Unavailable(what);
      failed_ = true;
    }
    changed_.notify_one();
  }

  /// The reason why the current wait will not end by itself; "" if it may.
  std::string WhyNot() const {
    const int64_t since = waits_since_;
    if (since == 0) return "";
    if (const Status status = group_.status(); !status.ok()) return status.message();
    ncclResult_t result = ncclSuccess;
    if (ncclCommGetAsyncError(comm_, &result) == ncclSuccess && result != ncclSuccess && result != ncclInProgress) {
      return Says("NCCL", result);
    }
    const auto waited = Clock::now() - Clock::time_point(Clock::duration(since));
    return waited > group_.timeout() ? Late() : "";
  }

  void Watch() {
    std::unique_lock lock(mutex_);
    while (!leaving_ && !failed_) {
      changed_.wait_for(lock, kLook, [&] { return leaving_ || failed_; });
      lock.unlock();
      if (const std::string why = failed_ ? "" : WhyNot(); !why.empty()) Fail(why);
      lock.lock();
    }
    lock.unlock();
    if (comm_ != nullptr) Abort();
  }

  // An abort ends kernels at once, but the last of a process's ranks to abort returns only when no captured graph with
  // their calls exists. After a failure it is unknown when that is, and the released memory is not needed, so nothing
  // waits for it.
  void Abort() {
    const auto done = std::make_shared<std::promise<void>>();
    std::thread([comm = comm_, done] {
      ncclCommAbort(comm);
      done->set_value();
    }).detach();
    if (!failed_) done->get_future().wait_for(kLeave);
  }

  Comm& group_;
  const cudaStream_t stream_;
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> waits_since_{0};  // in ticks of Clock; 0: not waiting
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status failure_;
  bool leaving_ = false;
  std::thread watch_;
};

}  // namespace

Result<std::unique_ptr<StreamComm>> MakeNcclComm(Comm& group, void* stream) {
  auto comm = std::make_unique<NcclComm>(group, stream);
  RETURN_IF_ERROR(comm->Start());
  return std::unique_ptr<StreamComm>(std::move(comm));
}

bool HasNccl() { return true; }

}  // namespace ringside

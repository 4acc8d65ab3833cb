// Ranks in separate processes (Open MPI). Every call consists of point-to-point messages that are started, polled until
// complete, and abandoned on timeout. Nothing ever blocks inside MPI, so a dead rank or a cut link stops no other rank.
// MPI is called by one thread at a time.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "kernels/comm/exit_watch.h"
#include "kernels/comm/mpi_library.h"
#include "kernels/ranks/processes.h"

namespace ringside {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr size_t kPieceBytes = size_t{1} << 20;  // per message; larger transfers are split
// Number of polls without a pause, and with a short one, before polling once a millisecond. Within a step the other
// ranks follow closely; between steps latency does not matter.
constexpr int kLooks = 2000, kQuickPolls = 2000;
constexpr std::chrono::microseconds kQuickPause{50}, kPause{1000};
constexpr int kPollsPerFarewell = 16;  // polls per check for ranks that have left
// A process that is silent for kSilence is lost. Computation is no excuse: the answering thread does nothing else.
constexpr std::chrono::milliseconds kSilence{3000}, kBeat{500};

/// Message kinds. Messages of one kind between two ranks arrive in order.
enum class Kind { kMeeting, kMail, kFarewell };

int Tag(int channel, Kind kind, int from, int to) {
  static_assert((Processes::kMaxChannels + 1) * 3 * Processes::kMaxRanksPerProcess * Processes::kMaxRanksPerProcess <=
                32767);
  return ((channel * 3 + static_cast<int>(kind)) * Processes::kMaxRanksPerProcess + from) *
             Processes::kMaxRanksPerProcess +
         to;
}

/// A message in flight. MPI may use its memory until it is done.
struct Transfer {
  int rank = 0;  // the other end
  std::vector<std::byte> data;
  bool receives = false, done = false;
  MPI_Request request = nullptr;  // set when it starts
};
using Transfers = std::vector<std::unique_ptr<Transfer>>;

/// MPI state shared by all groups of this process.
class Mpi {
 public:
  const MpiLibrary calls;

  explicit Mpi(const MpiLibrary& library) : calls(library) {
    calls.CommRank(calls.world, &number_);
    calls.CommSize(calls.world, &count_);
  }

  int number() const { return number_; }
  int count() const { return count_; }

  /// A failure of the whole process: another process is lost or has left.
  Status failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  void Fail(Status failure) {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(failure);
  }

  void Begin(Transfer& transfer, int process, int tag) {
    std::lock_guard lock(mutex_);
    const auto bytes = static_cast<int>(transfer.data.size());
    if (transfer.receives) {
      calls.Irecv(transfer.data.data(), bytes, calls.byte, process, tag, calls.world, &transfer.request);
    } else {
      calls.Isend(transfer.data.data(), bytes, calls.byte, process, tag, calls.world, &transfer.request);
    }
  }
  /// Polls the transfers; true once all are done.
  bool Look(Transfers& transfers) {
    std::lock_guard lock(mutex_);
    bool all = true;
    for (const auto& transfer : transfers) {
      int done = transfer->done ? 1 : 0;
      if (!done) calls.Test(&transfer->request, &done, MPI_STATUS_IGNORE);
      transfer->done = done != 0;
      all = all && transfer->done;
    }
    return all;
  }
  void GiveUp(Transfers transfers) {
    std::lock_guard lock(mutex_);
    for (auto& transfer : transfers) {
      if (!transfer->done) given_up_.push_back(std::move(transfer));
    }
  }

  // Farewells are never waited for.
  void SendFarewell(int rank, int process, int tag) {
    auto farewell = std::make_unique<Transfer>();
    farewell->data.resize(sizeof(rank));
    std::memcpy(farewell->data.data(), &rank, sizeof(rank));
    Begin(*farewell, process, tag);
    std::lock_guard lock(mutex_);
    farewells_.push_back(std::move(farewell));
  }
  /// Receives a farewell and returns its sender; -1 if there is none.
  int PollFarewell(int tag) {
    std::lock_guard lock(mutex_);
    int there = 0, rank = -1;
    MPI_Status from;
    calls.Iprobe(MPI_ANY_SOURCE, tag, calls.world, &there, &from);
    if (there) calls.Recv(&rank, sizeof(rank), calls.byte, from.MPI_SOURCE, tag, calls.world, MPI_STATUS_IGNORE);
    return rank;
  }

 private:
  mutable std::mutex mutex_;
  int number_ = 0, count_ = 0;
  Status failure_;
  Transfers given_up_, farewells_;  // MPI may still use their memory
};

/// The members of a group: the process of each rank.
struct Group {
  struct Member {
    int process = 0, index = 0;  // index among the ranks of its process
  };
  int channel = 0;  // groups that share a channel have no member in common
  const char* name = "rank";
  std::vector<Member> members;
};

/// Waiting time of a call. Periods in which this process did not run count little: on a machine that pauses or is
/// overloaded, the other ranks are late for the same reason.
class Waited {
 public:
  explicit Waited(std::chrono::milliseconds limit) : limit_(limit) {}
  bool TooLong() {
    const Time now = std::chrono::steady_clock::now();
    sum_ += std::min<std::chrono::nanoseconds>(now - looked_, kMaxBetweenPolls);
    looked_ = now;
    return sum_ >= limit_;
  }

 private:
  static constexpr std::chrono::milliseconds kMaxBetweenPolls{100};
  const std::chrono::milliseconds limit_;
  std::chrono::nanoseconds sum_{0};
  Time looked_ = std::chrono::steady_clock::now();
};

class MpiComm final : public Comm {
 public:
  MpiComm(std::shared_ptr<Mpi> mpi, Group group, int rank, std::chrono::milliseconds timeout)
      : mpi_(std::move(mpi)), group_(std::move(group)), rank_(rank), timeout_(timeout), left_(group_.members.size()) {}
  ~MpiComm() override {
    for (int other = 0; other < ranks(); ++other) {
      if (other != rank_) mpi_->SendFarewell(rank_, At(other).process, FarewellTag(other));
    }
  }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(group_.members.size()); }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  Status status() const override {
    std::lock_guard lock(mutex_);
    return failure_.ok() ? mpi_->failure() : failure_;
  }

  void AllReduceSum(float* x, int64_t count) override {
    constexpr auto kPiece = static_cast<int64_t>(kPieceBytes / sizeof(float));
    for (int64_t at = 0; at < count; at += kPiece) SumPiece(x + at, std::min(kPiece, count - at));
  }

  void AllGather(const void* mine, size_t bytes, void* all) override {
    auto* out = static_cast<std::byte*>(all);
    ForPieces(bytes, [&](size_t at, size_t size) {
      const std::byte* own = static_cast<const std::byte*>(mine) + at;
      Transfers transfers = Meet(own, size);
      if (transfers.empty() && ranks() > 1) return false;
      std::memcpy(out + static_cast<size_t>(rank()) * bytes + at, own, size);
      for (const auto& from : transfers) {
        if (from->receives) std::memcpy(out + static_cast<size_t>(from->rank) * bytes + at, from->data.data(), size);
      }
      return true;
    });
  }

  void Broadcast(void* data, size_t bytes, int root) override {
    ForPieces(bytes, [&](size_t at, size_t size) {
      std::byte* piece = static_cast<std::byte*>(data) + at;
      Transfers transfers;
      for (int other = 0; other < ranks(); ++other) {
        if (other == rank() || (rank() != root && other != root)) continue;
        AddTransfer(transfers, Kind::kMeeting, other, rank() == root ? piece : nullptr, size);
      }
      if (!Finish(transfers, "did not respond")) return false;
      if (rank() != root) std::memcpy(piece, transfers.front()->data.data(), size);
      return true;
    });
  }

  void Send(const void* data, size_t bytes, int to) override {
    ForPieces(bytes, [&](size_t at, size_t size) {
      Transfers transfers;
      AddTransfer(transfers, Kind::kMail, to, static_cast<const std::byte*>(data) + at, size);
      return Finish(transfers, "accepted no data");
    });
  }

  void Receive(void* data, size_t bytes, int from) override {
    ForPieces(bytes, [&](size_t at, size_t size) {
      Transfers transfers;
      AddTransfer(transfers, Kind::kMail, from, nullptr, size);
      if (!Finish(transfers, "sent no data")) return false;
      std::memcpy(static_cast<std::byte*>(data) + at, transfers.front()->data.data(), size);
      return true;
    });
  }

  void Barrier() override { Meet(nullptr, 0); }

 private:
  const Group::Member& At(int rank) const { return group_.members[static_cast<size_t>(rank)]; }
  int FarewellTag(int to) const { return Tag(group_.channel, Kind::kFarewell, 0, At(to).index); }

  /// Calls each(offset, size) for every chunk until it returns false; once with size 0 if there are no bytes.
  template <class Each>
  static void ForPieces(size_t bytes, const Each& each) {
    size_t at = 0;
    do {
      const size_t size = std::min(kPieceBytes, bytes - at);
      if (!each(at, size)) return;
      at += size;
    } while (at < bytes);
  }

  // Direct exchange: every rank sends all of its values to all others. That is optimal for two ranks, and few CPU
  // setups have more.
  void SumPiece(float* x, int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    const Transfers transfers = Meet(x, bytes);
    if (transfers.empty()) return;
    std::vector<const float*> parts(static_cast<size_t>(ranks()), x);
    for (const auto& from : transfers) {
      if (from->receives) {
        parts[static_cast<size_t>(from->rank)] = reinterpret_cast<const float*>(from->data.data());
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      float sum = parts[0][i];
      for (size_t r = 1; r < parts.size(); ++r) sum += parts[r][i];
      x[i] = sum;
    }
  }

  /// Sends `mine` to all other ranks and receives from them. Returns all transfers, sent ones included; empty once the
  /// group has failed.
  Transfers Meet(const void* mine, size_t bytes) {
    Transfers transfers;
    for (int other = 0; other < ranks(); ++other) {
      if (other == rank()) continue;
      AddTransfer(transfers, Kind::kMeeting, other, nullptr, bytes);
      AddTransfer(transfers, Kind::kMeeting, other, mine == nullptr ? &kNothing : mine, bytes);
    }
    if (!Finish(transfers, "did not respond")) transfers.clear();
    return transfers;
  }

  /// Starts a transfer, unless the group has failed; a receive if `data` is null.
  void AddTransfer(Transfers& transfers, Kind kind, int other, const void* data, size_t bytes) {
    auto& transfer = *transfers.emplace_back(std::make_unique<Transfer>());
    transfer.rank = other;
    transfer.receives = data == nullptr;
    transfer.data.resize(bytes);
    if (data != nullptr) std::memcpy(transfer.data.data(), data, bytes);
    if (failed_) return;
    const int here = At(rank_).index, there = At(other).index;
    mpi_->Begin(transfer, At(other).process,
                transfer.receives ? Tag(group_.channel, kind, there, here) : Tag(group_.channel, kind, here, there));
  }

  /// Waits until all transfers are done. If one cannot complete, fails the group and returns false; `what` describes
  /// the other end's failure.
  bool Finish(Transfers& transfers, const char* what) {
    if (failed_) return false;
    Waited waited(timeout_);
    for (int look = 0;; ++look) {
      // Before the poll: a rank that has left sent everything it had to send before its farewell.
      if (look % kPollsPerFarewell == 0) PollFarewells();
      if (mpi_->Look(transfers)) return true;
      for (const auto& transfer : transfers) {
        if (!transfer->done && left_[static_cast<size_t>(transfer->rank)]) {
          return Fail(transfers, fmt::format("{} {} has left its group", group_.name, transfer->rank));
        }
      }
      if (look >= kLooks || look % kPollsPerFarewell == 0) {
        if (const Status lost = mpi_->failure(); !lost.ok()) return Fail(transfers, lost.message());
        if (waited.TooLong()) {
          const auto late = std::ranges::find(transfers, false, &Transfer::done);
          return Fail(transfers,
                      fmt::format("{} {} {} within {} ms", group_.name, (*late)->rank, what, timeout_.count()));
        }
      }
      if (look < kLooks)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(look < kLooks + kQuickPolls ? kQuickPause : kPause);
    }
  }

  void PollFarewells() {
    for (int rank; (rank = mpi_->PollFarewell(FarewellTag(rank_))) >= 0;) left_[static_cast<size_t>(rank)] = true;
  }

  bool Fail(Transfers& transfers, const std::string& what) {
    mpi_->GiveUp(std::move(transfers));
    transfers.clear();
    failed_ = true;
    std::lock_guard lock(mutex_);
    failure_ = Unavailable(what);
    return false;
  }

  static constexpr std::byte kNothing{};

  const std::shared_ptr<Mpi> mpi_;
  const Group group_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
  std::vector<bool> left_;  // by rank
  bool failed_ = false;
  mutable std::mutex mutex_;
  Status failure_;
};

/// The channel of the liveness messages between processes; other groups use the channels below.
constexpr int kLifeChannel = Processes::kMaxChannels;

class MpiProcesses final : public Processes {
 public:
  MpiProcesses(const MpiLibrary& library, std::chrono::milliseconds timeout)
      : mpi_(std::make_shared<Mpi>(library)), timeout_(timeout) {
    MPI_Comm machine;
    mpi_->calls.CommSplitType(mpi_->calls.world, MPI_COMM_TYPE_SHARED, 0, mpi_->calls.info_null, &machine);
    mpi_->calls.CommRank(machine, &number_on_machine_);
    mpi_->calls.CommSize(machine, &count_on_machine_);
    WatchExits(machine);
    watch_ = std::thread([this] { Watch(); });
  }
  ~MpiProcesses() override { CHECK(!watch_.joinable()); }

  int number() const override { return mpi_->number(); }
  int count() const override { return mpi_->count(); }
  int number_on_machine() const override { return number_on_machine_; }
  int count_on_machine() const override { return count_on_machine_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }

  std::unique_ptr<Comm> MakeComm(int channel, std::chrono::milliseconds timeout) override {
    CHECK(channel >= 0 && channel < kMaxChannels);
    return std::make_unique<MpiComm>(mpi_, AllProcesses(channel), number(), timeout);
  }

  std::vector<RankComms> MakeComms(int channel, const RankLayout& layout, std::chrono::milliseconds timeout) override {
    const int each = layout.ranks() / count();
    CHECK_EQ(each * count(), layout.ranks());
    CHECK(each <= kMaxRanksPerProcess && channel >= 0 && channel + 1 < kMaxChannels);
    std::vector<RankComms> all(static_cast<size_t>(each));
    for (int index = 0; index < each; ++index) {
      const int rank = number() * each + index, stage = layout.stage(rank), place = layout.place(rank);
      Group layer{.channel = channel}, stages{.channel = channel + 1, .name = "stage"};
      layer.members.resize(static_cast<size_t>(layout.tensor));
      stages.members.resize(static_cast<size_t>(layout.stages));
      for (int other = 0; other < layout.ranks(); ++other) {
        const Group::Member member{other / each, other % each};
        const auto its_place = static_cast<size_t>(layout.place(other)),
                   its_stage = static_cast<size_t>(layout.stage(other));
        if (layout.stage(other) == stage) layer.members[its_place] = member;
        if (layout.place(other) == place) stages.members[its_stage] = member;
      }
      RankComms& comms = all[static_cast<size_t>(index)];
      if (layout.tensor > 1) comms.layer = std::make_unique<MpiComm>(mpi_, std::move(layer), place, timeout);
      if (layout.stages > 1) comms.stages = std::make_unique<MpiComm>(mpi_, std::move(stages), stage, timeout);
    }
    return all;
  }

  void AwaitFirst() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }
  Status Leave(bool failed) override {
    {
      std::lock_guard lock(mutex_);
      leaving_ = failed ? Leaving::kFailed : Leaving::kInOrder;
    }
    changed_.notify_all();
    watch_.join();
    // MPI_Finalize waits for all processes; a lost one never arrives.
    if (!lost_) mpi_->calls.Finalize();
    return mpi_->failure();
  }

 private:
  enum class Leaving : char { kNot, kInOrder, kFailed };

  struct OnMachine {
    int number = 0;  // among all processes
    ExitWatch::Process process;
  };

  void WatchExits(MPI_Comm machine) {
    const OnMachine own{mpi_->number(), ExitWatch::Self()};
    std::vector<OnMachine> all(static_cast<size_t>(count_on_machine_));
    mpi_->calls.Allgather(&own, sizeof(own), mpi_->calls.byte, all.data(), sizeof(own), mpi_->calls.byte, machine);
    for (const OnMachine& other : all) {
      if (other.number != own.number) exits_->Add(other.number, other.process);
    }
    mpi_->calls.Barrier(machine);  // all watched processes still run, so no pid was reused
    exits_->Start([this](int number) {
      mpi_->Fail(Unavailable(fmt::format("process {} has exited", number)));
      std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
  }

  Group AllProcesses(int channel) const {
    Group group{.channel = channel};
    for (int process = 0; process < count(); ++process) group.members.push_back({process, 0});
    return group;
  }

  void Watch() {
    pthread_setname_np(pthread_self(), "processes");
    WatchUntilOneLeaves();
    exits_.reset();  // exits are in order from now on
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void WatchUntilOneLeaves() {
    Group all = AllProcesses(kLifeChannel);
    all.name = "process";
    MpiComm life(mpi_, std::move(all), number(), kSilence - kBeat);
    std::vector<Leaving> leave(static_cast<size_t>(mpi_->count()));
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kBeat, [this] { return leaving_ != Leaving::kNot || !mpi_->failure().ok(); });
      const Leaving mine = leaving_;
      lock.unlock();
      life.AllGather(&mine, sizeof(mine), leave.data());
      if (const Status status = life.status(); !status.ok()) {
        lost_ = true;
        return mpi_->Fail(status);
      }
      const auto left = std::ranges::find_if(leave, [](Leaving one) { return one != Leaving::kNot; });
      if (left == leave.end()) continue;
      if (leave.front() == Leaving::kFailed) mpi_->Fail(Unavailable("the first process has failed"));
      if (leave.front() == Leaving::kNot) {
        mpi_->Fail(Unavailable(fmt::format("process {} has left", left - leave.begin())));
      }
      return;
    }
  }

  const std::shared_ptr<Mpi> mpi_;
  const std::chrono::milliseconds timeout_;
  int number_on_machine_ = 0, count_on_machine_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  Leaving leaving_ = Leaving::kNot;                                   // of this process
  bool ended_ = false;                                                // the watch thread has ended
  bool lost_ = false;                                                 // another process is lost; valid once ended_
  std::unique_ptr<ExitWatch> exits_ = std::make_unique<ExitWatch>();  // used by the watch thread once it runs
  std::thread watch_;
};

}  // namespace

Result<std::unique_ptr<Processes>> JoinByMpi(std::chrono::milliseconds timeout) {
  const Result<MpiLibrary> mpi = MpiLibrary::Load();
  if (!mpi.ok()) return mpi.status();
  int threads = 0;
  if (mpi->InitThread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS ||
      threads < MPI_THREAD_SERIALIZED) {
    return Unavailable("MPI_Init_thread failed, or this MPI lacks MPI_THREAD_SERIALIZED");
  }
  mpi->CommSetErrhandler(mpi->world, mpi->errors_return);
  return std::unique_ptr<Processes>(std::make_unique<MpiProcesses>(*mpi, timeout));
}

}  // namespace ringside

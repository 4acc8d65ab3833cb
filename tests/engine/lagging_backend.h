// A CPU backend with asynchronous slab copies, as on a GPU: a copy completes after enough polls, when waited for, or
// when its slab is used. Exposes memory that is freed, and slabs that are lent, too early.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/engine/failing_backend.h"
#include "tests/engine/forwarding_network.h"

namespace ringside {

class LaggingBackend : public FailingBackend {
 public:
  using FailingBackend::FailingBackend;

  /// While set, polling completes no copy. THREAD: any.
  void Hold(bool hold) { held_ = hold; }
  /// While set, commits of memory stay in flight. THREAD: any.
  void HoldMemory(bool hold) { memory_held_ = hold; }
  /// Number of copies that were waited for.
  int64_t waits() const { return waits_; }
  int64_t copies() const { return copies_; }

  bool Committed(const void*, size_t, int64_t) override { return !memory_held_; }
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override {
    return Begin(true, shape, const_cast<void*>(slab), runs);
  }
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override {
    return Begin(false, shape, slab, runs);
  }
  void CopyOnDevice(void* to, const void* from, size_t bytes) override {
    UseSlab(to);
    UseSlab(from);
    FailingBackend::CopyOnDevice(to, from, bytes);
  }
  bool CopyDone(CopyTicket ticket) override {
    const auto found = Find(ticket);
    if (found == copying_.end()) return true;
    if (held_ || ++found->asked < 3) return false;
    RunUntil(ticket);
    return true;
  }
  void WaitForCopy(CopyTicket ticket) override {
    if (Find(ticket) == copying_.end()) return;
    ++waits_;
    RunUntil(ticket);
  }
  void Decommit(void* data, size_t bytes) override {
    // Copies issued before may still use it.
    for (size_t i = copying_.size(); i > 0; --i) {
      const auto* slab = static_cast<std::byte*>(copying_[i - 1].slab);
      if (slab <= data && data < slab + copying_[i - 1].shape.slab_bytes()) {
        RunUntil(copying_[i - 1].ticket);
        break;
      }
    }
    FailingBackend::Decommit(data, bytes);
  }
  /// A step uses this slab, as Attention does: completes copies to and from it first.
  void UseSlab(const void* slab) {
    for (size_t i = copying_.size(); i > 0; --i) {
      if (copying_[i - 1].slab == slab) return RunUntil(copying_[i - 1].ticket);
    }
  }

 private:
  struct Copy {
    CopyTicket ticket;
    bool save;
    KvShape shape;
    void* slab;
    std::vector<SlabRun> runs;
    int asked = 0;
  };
  CopyTicket Begin(bool save, const KvShape& shape, void* slab, std::span<const SlabRun> runs) {
    ++copies_;
    copying_.push_back({++last_, save, shape, slab, {runs.begin(), runs.end()}});
    return last_;
  }
  std::deque<Copy>::iterator Find(CopyTicket ticket) {
    return std::find_if(copying_.begin(), copying_.end(), [&](const Copy& copy) { return copy.ticket == ticket; });
  }
  // Runs all copies up to this one, in order.
  void RunUntil(CopyTicket ticket) {
    while (!copying_.empty() && copying_.front().ticket <= ticket) {
      const Copy& copy = copying_.front();
      if (copy.save)
        FailingBackend::SaveSlab(copy.shape, copy.slab, copy.runs);
      else
        FailingBackend::LoadSlab(copy.shape, copy.slab, copy.runs);
      copying_.pop_front();
    }
  }

  std::deque<Copy> copying_;
  CopyTicket last_ = 0;
  std::atomic<bool> held_{false}, memory_held_{false};
  std::atomic<int64_t> waits_{0}, copies_{0};
};

/// A network on a LaggingBackend, whose steps use their slabs.
class LaggingNetwork final : public ForwardingNetwork {
 public:
  LaggingNetwork(LaggingBackend& backend, Network& network) : ForwardingNetwork(network), backend_(backend) {}

 private:
  void Before(std::span<const StepPart> parts) override {
    for (const StepPart& part : parts) backend_.UseSlab(part.cache->slab());
  }

  LaggingBackend& backend_;
};

}  // namespace ringside

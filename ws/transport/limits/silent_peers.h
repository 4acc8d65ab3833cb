// Connections that have not identified themselves: the TLS handshake is not complete, or no request has been admitted;
// also evicted WebSockets that have not answered their close. A client that opens many silent connections would take
// the places of others: when no place is left, the longest silent connection of the address with the most is closed.
// Owned by the ServerContext.
// THREAD: any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ringside {

class SilentPeers {
 public:
  /// `cut` is called at most once, by CutOldest, on any thread, without the lock; it must not block. Returns the number
  /// for Remove, never 0.
  uint64_t Add(const std::string& address, std::function<void()> cut) {
    std::lock_guard lock(mutex_);
    addresses_[address].emplace_hint(addresses_[address].end(), ++last_, std::move(cut));
    ++size_;
    return last_;
  }
  void Remove(const std::string& address, uint64_t number) {
    std::function<void()> removed;  // destroyed without the lock: its captures may call back into this class
    std::lock_guard lock(mutex_);
    if (const auto peers = addresses_.find(address); peers != addresses_.end()) {
      removed = TakeLocked(peers, peers->second.find(number));
    }
  }
  /// Returns false if there is no silent connection.
  bool CutOldest() {
    std::unique_lock lock(mutex_);
    auto most = addresses_.begin();
    for (auto at = addresses_.begin(); at != addresses_.end(); ++at) {
      if (at->second.size() > most->second.size()) most = at;
    }
    if (most == addresses_.end()) return false;
    const std::function<void()> cut = TakeLocked(most, most->second.begin());
    lock.unlock();
    cut();
    return true;
  }
  int64_t size() const {
    std::lock_guard lock(mutex_);
    return size_;
  }

 private:
  using Peers = std::map<uint64_t, std::function<void()>>;  // by arrival
  using Addresses = std::unordered_map<std::string, Peers>;

  std::function<void()> TakeLocked(Addresses::iterator peers, Peers::iterator peer) {
    if (peer == peers->second.end()) return nullptr;
    std::function<void()> cut = std::move(peer->second);
    peers->second.erase(peer);
    if (peers->second.empty()) addresses_.erase(peers);
    --size_;
    return cut;
  }

  mutable std::mutex mutex_;
  Addresses addresses_;  // addresses with at least one peer
  int64_t size_ = 0;
  uint64_t last_ = 0;
};

/// Registration of one silent connection.
/// THREAD: the connection's strand.
class SilentPeer {
 public:
  explicit SilentPeer(SilentPeers& peers) : peers_(peers) {}
  ~SilentPeer() { Speak(); }
  SilentPeer(const SilentPeer&) = delete;
  SilentPeer& operator=(const SilentPeer&) = delete;

  void BeSilent(const std::string& address, std::function<void()> cut) {
    Speak();
    address_ = address;
    number_ = peers_.Add(address_, std::move(cut));
  }
  void Speak() {
    if (number_ != 0) peers_.Remove(address_, std::exchange(number_, 0));
  }
  bool silent() const { return number_ != 0; }

 private:
  SilentPeers& peers_;
  std::string address_;
  uint64_t number_ = 0;
};

}  // namespace ringside

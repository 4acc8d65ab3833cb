#include "ws/transport/worker_pool.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"

namespace ringside {
namespace {

constexpr uint64_t kCallBytes = 4 << 10;  // what the smallest call counts as

}  // namespace

WorkerPool::WorkerPool(const WorkerPoolOptions& options)
    : options_(options), most_running_(std::max(1, options.threads - 1)) {
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] { Work(); });
    pthread_setname_np(threads_.back().native_handle(), "worker");
  }
}

Status WorkerPool::Submit(const std::string& client, size_t bytes, std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return Unavailable("The server is stopping.");
    Client& asking = clients_[client];
    // One call may be larger than a client's share if nothing of it waits.
    const bool own_full = !asking.waiting.empty() && (asking.waiting.size() >= options_.queue_calls / 2 ||
                                                      asking.bytes + bytes > options_.queue_bytes / 2);
    if (own_full || calls_ >= options_.queue_calls || bytes_ + bytes > options_.queue_bytes) {
      if (asking.waiting.empty() && asking.running == 0) clients_.erase(client);
      ++refused_;
      return Unavailable("Too many requests are waiting to be worked on.");
    }
    asking.waiting.push_back({bytes, std::move(call)});
    if (asking.waiting.size() == 1) StandInLine(client, asking);
    asking.bytes += bytes;
    bytes_ += bytes;
    ++calls_;
  }
  changed_.notify_one();
  return Status::Ok();
}

void WorkerPool::StandInLine(const std::string& name, Client& client) {
  client.share = std::max(clock_, client.share) + kCallBytes + client.waiting.front().bytes;
  line_.emplace(std::pair(client.share, ++arrivals_), name);
}

std::unordered_map<std::string, WorkerPool::Client>::iterator WorkerPool::TakeTurn() {
  for (auto at = line_.begin(); at != line_.end(); ++at) {
    const auto client = clients_.find(at->second);
    if (client->second.running >= most_running_) continue;
    if (IsLarge(client->second.waiting.front().bytes) && large_running_ >= most_running_) continue;
    clock_ = std::max(clock_, at->first.first);
    line_.erase(at);
    return client;
  }
  return clients_.end();
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto client = clients_.end();
    changed_.wait(lock, [&] { return stopping_ || (client = TakeTurn()) != clients_.end(); });
    if (stopping_) return;
    const std::string name = client->first;
    Client& taken = client->second;
    Call call = std::move(taken.waiting.front());
    taken.waiting.pop_front();
    taken.bytes -= call.bytes;
    bytes_ -= call.bytes;
    --calls_;
    ++taken.running;
    if (IsLarge(call.bytes)) ++large_running_;
    if (!taken.waiting.empty()) StandInLine(name, taken);
    lock.unlock();
    try {
      call.run();
    } catch (const std::exception& error) {
      LogError("a request was cut by an exception: {}", TypeOf(error));
    }
    call.run = nullptr;  // what it holds goes without the lock
    lock.lock();
    if (IsLarge(call.bytes)) --large_running_;
    if (!line_.empty()) changed_.notify_one();  // one more may be begun than this thread is about to
    // Other clients may have come and gone: only the name still leads to this one.
    const auto done = clients_.find(name);
    if (--done->second.running == 0 && done->second.waiting.empty()) clients_.erase(done);
  }
}

WorkerPoolStats WorkerPool::stats() const {
  std::lock_guard lock(mutex_);
  return {calls_, bytes_, refused_};
}

void WorkerPool::Stop() {
  std::unordered_map<std::string, Client> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    line_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  dropped.swap(clients_);
}

}  // namespace ringside

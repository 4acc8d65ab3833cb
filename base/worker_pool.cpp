#include "base/worker_pool.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace ringside {
namespace {

constexpr uint64_t kCallBytes = 4 << 10;  // minimum charge for a call

}  // namespace

thread_local WorkerPool::Running* WorkerPool::running_here_ = nullptr;

WorkerPool::WorkerPool(const WorkerPoolOptions& options)
    : options_(options),
      max_running_(std::max(1, options.threads - 1)),
      long_work_({.threads = std::max(1, options.threads / 2),
                  .waiting_of_owner = options.long_calls_of_client,
                  .waiting = options.long_calls}) {
  std::lock_guard lock(mutex_);
  for (int i = 0; i < options.threads; ++i) StartThread();
}

void WorkerPool::StartThread() {
  threads_.emplace_back([this] { Work(); });
  pthread_setname_np(threads_.back().native_handle(), "worker");
}

Status WorkerPool::Submit(const std::string& client, size_t bytes, std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return Unavailable("The server is stopping.");
    Client& asking = clients_[client];
    // One call may exceed a client's share if the client has no queued call.
    const bool own_full = !asking.waiting.empty() && (asking.waiting.size() >= options_.queue_calls / 2 ||
                                                      asking.bytes + bytes > options_.queue_bytes / 2);
    if (own_full || counts_.calls >= options_.queue_calls || counts_.bytes + bytes > options_.queue_bytes) {
      if (asking.gone()) clients_.erase(client);
      ++counts_.refused;
      return Unavailable("Too many requests are waiting to be worked on.");
    }
    asking.waiting.push_back({bytes, std::move(call)});
    if (asking.waiting.size() == 1) EnqueueClient(client, asking);
    asking.bytes += bytes;
    counts_.bytes += bytes;
    ++counts_.calls;
  }
  changed_.notify_one();
  return Status::Ok();
}

void WorkerPool::EnqueueClient(const std::string& name, Client& client) {
  client.share = std::max(clock_, client.share) + kCallBytes + client.waiting.front().bytes;
  line_.emplace(std::pair(client.share, ++arrivals_), name);
}

std::unordered_map<std::string, WorkerPool::Client>::iterator WorkerPool::DequeueClient() {
  for (auto at = line_.begin(); at != line_.end(); ++at) {
    const auto client = clients_.find(at->second);
    if (client->second.running >= max_running_) continue;
    if (IsLarge(client->second.waiting.front().bytes) && large_running_ >= max_running_) continue;
    clock_ = std::max(clock_, at->first.first);
    line_.erase(at);
    return client;
  }
  return clients_.end();
}

void WorkerPool::Occupy(Running& call) {
  const auto now = std::chrono::steady_clock::now();
  ++running_;
  ++clients_.find(call.client)->second.running;
  if (call.large) ++large_running_;
  call.since = running_since_.insert(now);
  if (running_ >= options_.threads && !busy_since_) busy_since_ = now;
}

void WorkerPool::Release(Running& call) {
  --running_;
  --clients_.find(call.client)->second.running;
  if (call.large) --large_running_;
  running_since_.erase(call.since);
  busy_since_.reset();
  if (running_ >= options_.threads) busy_since_ = std::chrono::steady_clock::now();
}

Status WorkerPool::StartSpareThread() {
  const size_t waiting = waits_since_.size() + counts_.long_calls;
  if (stopping_ || threads_.size() > static_cast<size_t>(options_.threads) + waiting) return Status::Ok();
  try {
    StartThread();
  } catch (const std::system_error& error) {
    ++counts_.refused;
    return Unavailable("The server has no thread left for another request that waits.");
  }
  return Status::Ok();
}

Status WorkerPool::BeginDiskWait() {
  Running& call = *running_here_;
  std::unique_lock lock(mutex_);
  Client& client = clients_.find(call.client)->second;
  while (waits_since_.size() >= options_.disk_waits || client.disk_waits >= options_.disk_waits / 2) {
    const TimePoint patience_ends = *waits_since_.begin() + options_.disk_patience;
    if (std::chrono::steady_clock::now() >= patience_ends) {
      ++counts_.refused;
      return Unavailable("The disk does not keep up: too many requests are waiting for it.");
    }
    wait_ended_.wait_until(lock, patience_ends);
  }
  RETURN_IF_ERROR(StartSpareThread());
  Release(call);
  ++client.disk_waits;
  call.waits = true;
  call.since = waits_since_.insert(std::chrono::steady_clock::now());
  changed_.notify_one();
  return Status::Ok();
}

// The call resumes at once, even though another runs in its place: little work remains after a wait.
void WorkerPool::EndDiskWait() {
  Running& call = *running_here_;
  {
    std::lock_guard lock(mutex_);
    waits_since_.erase(call.since);
    --clients_.find(call.client)->second.disk_waits;
    call.waits = false;
    Occupy(call);
  }
  wait_ended_.notify_all();
}

Status WorkerPool::RunLong(const std::function<void()>& work) {
  Running& call = *running_here_;
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(StartSpareThread());
    Release(call);
    ++counts_.long_calls;
    ++clients_.find(call.client)->second.long_calls;
    call.waits = true;
    changed_.notify_one();
  }
  Status status;
  std::exception_ptr thrown;
  try {
    status = long_work_.Run(call.client, work);
  } catch (...) {
    thrown = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    --counts_.long_calls;
    --clients_.find(call.client)->second.long_calls;
    if (!status.ok()) ++counts_.refused;
    call.waits = false;
    Occupy(call);
  }
  if (thrown) std::rethrow_exception(thrown);
  return status;
}

Status RunLongWork(const std::function<void()>& work) {
  WorkerPool::Running* const call = WorkerPool::running_here_;
  if (call != nullptr && !call->waits) return call->pool->RunLong(work);
  work();
  return Status::Ok();
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto client = clients_.end();
    const auto may_run = [&] { return running_ < options_.threads && (client = DequeueClient()) != clients_.end(); };
    changed_.wait(lock, [&] { return stopping_ || may_run(); });
    if (stopping_) return;
    Client& taken = client->second;
    Call call = std::move(taken.waiting.front());
    taken.waiting.pop_front();
    taken.bytes -= call.bytes;
    counts_.bytes -= call.bytes;
    --counts_.calls;
    Running running{this, client->first, IsLarge(call.bytes)};
    Occupy(running);
    if (!taken.waiting.empty()) EnqueueClient(running.client, taken);
    running_here_ = &running;
    lock.unlock();
    try {
      call.run();
    } catch (const std::exception& error) {
      LogError("a request was aborted by an exception: {}", TypeOf(error));
    }
    call.run = nullptr;  // destroy the closure's captures without the lock
    lock.lock();
    running_here_ = nullptr;
    Release(running);
    if (!line_.empty()) changed_.notify_one();  // more than one call may now be runnable
    // Look up by name: the iterator is stale, because the lock was released while the call ran.
    if (const auto done = clients_.find(running.client); done->second.gone()) clients_.erase(done);
  }
}

WorkerPoolStats WorkerPool::stats() const {
  std::lock_guard lock(mutex_);
  const auto since = [now = std::chrono::steady_clock::now()](TimePoint begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - begin).count();
  };
  WorkerPoolStats stats = counts_;
  stats.disk_waits = waits_since_.size();
  stats.longest_call_ms = running_since_.empty() ? 0 : since(*running_since_.begin());
  stats.stalled_ms = busy_since_ ? since(*busy_since_) : 0;
  return stats;
}

Result<DiskWait> DiskWait::Begin() {
  WorkerPool::Running* const call = WorkerPool::running_here_;
  if (call == nullptr || call->waits) return DiskWait(nullptr);
  RETURN_IF_ERROR(call->pool->BeginDiskWait());
  return DiskWait(call->pool);
}

void DiskWait::End() {
  if (WorkerPool* const pool = std::exchange(pool_, nullptr)) pool->EndDiskWait();
}

void WorkerPool::Stop() {
  std::unordered_map<std::string, Client> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    line_.clear();
  }
  changed_.notify_all();
  long_work_.Stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  dropped.swap(clients_);
}

}  // namespace ringside

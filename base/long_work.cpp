#include "base/long_work.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <utility>

#include "base/request_watch.h"

namespace ringside {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int kNice = 10;
constexpr double kHalfLife_s = 30;
constexpr double kDecayed_s = 1e-3;

void LowerPriority() { (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice); }

/// CPU time of this thread.
double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Decayed(double used_s, Time at, Time now) {
  return used_s * std::exp2(-std::chrono::duration<double>(now - at).count() / kHalfLife_s);
}

Status TooManyCalls() {
  return {StatusCode::kOverloaded,
          "Too many of your requests wait for long work, such as compiling a grammar; send fewer at once.", "",
          "rate_limit_exceeded"};
}

}  // namespace

/// A call; lives on the stack of Run.
struct LongWorkLane::Call {
  const std::function<void()>& work;
  const RequestWatch* watch;
  Status status = {};
  std::exception_ptr thrown = {};
  bool ended = false;
  std::condition_variable changed = {};
};

LongWorkLane::LongWorkLane(const LongWorkOptions& options) : options_(options) {
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] { Work(); });
    pthread_setname_np(threads_.back().native_handle(), "long work");
  }
}

Status LongWorkLane::Run(const std::string& owner, const std::function<void()>& work) {
  Call call{.work = work, .watch = RequestWatch::Current()};
  std::unique_lock lock(mutex_);
  if (stopping_) return Unavailable("The server is stopping.");
  Owner& own = owners_[owner];
  RETURN_IF_ERROR(Admit(own));
  own.waiting.push_back(&call);
  ++waiting_;
  changed_.notify_one();
  call.changed.wait(lock, [&] { return call.ended; });
  lock.unlock();
  if (call.thrown) std::rethrow_exception(call.thrown);
  return call.status;
}

Status LongWorkLane::Admit(const Owner& owner) {
  if (owner.waiting.size() >= options_.waiting_of_owner) return TooManyCalls();
  if (waiting_ < options_.waiting) return Status::Ok();
  const auto most =
      std::ranges::max_element(owners_, {}, [](const Owners::value_type& one) { return one.second.waiting.size(); });
  // At a difference of one the two owners would displace each other in turn, hence two.
  if (most->second.waiting.size() < owner.waiting.size() + 2) return TooManyCalls();
  Call& newest = *most->second.waiting.back();
  most->second.waiting.pop_back();
  --waiting_;
  Finish(newest, TooManyCalls());
  return Status::Ok();
}

LongWorkLane::Owners::iterator LongWorkLane::PickOwner() {
  const auto now = std::chrono::steady_clock::now();
  auto next = owners_.end();
  std::pair<int, double> least;
  for (auto at = owners_.begin(); at != owners_.end();) {
    const Owner& owner = at->second;
    const std::pair use{owner.running, Decayed(owner.used_s, owner.used_at, now)};
    if (owner.waiting.empty()) {
      at = owner.running == 0 && use.second < kDecayed_s ? owners_.erase(at) : std::next(at);
      continue;
    }
    if (next == owners_.end() || use < least) {
      next = at;
      least = use;
    }
    ++at;
  }
  return next;
}

void LongWorkLane::Work() {
  LowerPriority();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || waiting_ > 0; });
    if (stopping_) return;
    const auto owner = PickOwner();
    const std::string name = owner->first;
    Call& call = *owner->second.waiting.front();
    owner->second.waiting.pop_front();
    --waiting_;
    ++owner->second.running;
    lock.unlock();
    const double begun_s = ThreadSeconds();
    try {
      const RequestWatch watch([&call] { return call.watch != nullptr && call.watch->client_left(); });
      call.work();
    } catch (...) {
      call.thrown = std::current_exception();
    }
    const double took_s = ThreadSeconds() - begun_s;
    lock.lock();
    Owner& own = owners_.find(name)->second;
    const auto now = std::chrono::steady_clock::now();
    own.used_s = Decayed(own.used_s, own.used_at, now) + took_s;
    own.used_at = now;
    --own.running;
    Finish(call, Status::Ok());
  }
}

void LongWorkLane::Finish(Call& call, Status status) {
  call.status = std::move(status);
  call.ended = true;
  call.changed.notify_one();
}

void LongWorkLane::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [name, owner] : owners_) {
      for (Call* call : std::exchange(owner.waiting, {})) Finish(*call, Unavailable("The server is stopping."));
    }
    waiting_ = 0;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace ringside

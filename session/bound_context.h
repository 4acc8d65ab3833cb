// The context of one session: state of its table, with the settings of its model. In a server with several models a
// conversation may exist before its first turn names one; until then it has the default model's context. Shared by a
// session and its parts. THREAD: any may read; Bind under the session's lock.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace ringside {

struct SessionContext;

class BoundContext {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  BoundContext(std::shared_ptr<const SessionContext> context) : state_(std::make_shared<State>()) {
    Bind(std::move(context));
  }

  const SessionContext* operator->() const { return state_->current.load(std::memory_order_acquire); }
  const SessionContext& operator*() const { return *state_->current.load(std::memory_order_acquire); }
  /// Replaces the context. Earlier ones stay alive, because readers hold no lock.
  void Bind(std::shared_ptr<const SessionContext> context) const {
    state_->current.store(context.get(), std::memory_order_release);
    state_->kept.push_back(std::move(context));
  }

 private:
  struct State {
    std::atomic<const SessionContext*> current{nullptr};
    std::vector<std::shared_ptr<const SessionContext>> kept;
  };
  const std::shared_ptr<State> state_;
};

}  // namespace ringside

#include "session/table/deferred_work.h"

namespace ringside {

DeferredWork::DeferredWork()
    : thread_([this] {
        for (bool open = true; open;) {
          open = !queue_.closed();  // read before Drain, so that work pushed before the close still runs
          for (const std::function<void()>& work : queue_.Drain(true)) work();
        }
      }) {}

DeferredWork::~DeferredWork() {
  queue_.Close();
  thread_.join();
}

}  // namespace ringside

#include "ws/app/app_follower.h"

#include <thread>

#include "base/log.h"
#include "ws/app/app.h"
#include "ws/app/app_models.h"

namespace ringside {

int FollowFirst(const ServerConfig& config, SignalWatcher& signals, Processes& processes,
                std::optional<StopDeadline>& deadline) {
  signals.Defer();
  // After a process is lost this one waits at most for this time, even for its device.
  std::optional<StopDeadline> lost;
  std::thread watch([&] {
    processes.AwaitFirst();
    lost.emplace(processes.timeout(), kExitDeviceFailed);
  });
  const Status followed = FollowModel(config, processes);
  const int exit_code = followed.ok() ? kExitOk : kExitDeviceFailed;
  deadline.emplace(std::chrono::seconds(config.shutdown_timeout_s) + processes.timeout(), exit_code);
  if (followed.ok()) processes.AwaitFirst();
  const Status left = processes.Leave();
  watch.join();
  if (!followed.ok()) LogError("{}", followed.message());
  // If the first process left in order, its own exit status states the reason.
  return left.ok() ? kExitOk : kExitDeviceFailed;
}

}  // namespace ringside

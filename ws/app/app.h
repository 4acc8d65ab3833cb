// The server as a process: puts model, engine, sessions and transport together, keeps them while it runs and winds them
// up. Lives in main; its own thread does nothing but wait.
#pragma once

#include "ws/app/app_signals.h"
#include "ws/config/config.h"

namespace ringside {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;          // could not start
inline constexpr int kExitStoreInUse = 73;     // another process has the store
inline constexpr int kExitStoreDamaged = 74;   // what was stored is damaged, or part of it is missing
inline constexpr int kExitStorageFailed = 75;  // the disk failed; nothing acknowledged is lost
inline constexpr int kExitDeviceFailed = 76;   // the device, or another process, failed; nothing acknowledged is lost
inline constexpr int kExitBadConfig = 78;      // bad settings, or a store of another version or key

/// Serves until a signal asks to stop; returns the exit status. Once it is ready it writes exactly one line to standard
/// output: "ringside-server listening on http://ADDRESS:PORT". Everything else goes to the log.
///
/// Stopping: /readyz turns 503, every WebSocket hears {"type":"ringside:server.draining","deadline_ms":N}, turns that
/// run may end within the shutdown timeout, new ones are refused; then every socket is closed with 1012.
int RunServer(const ServerConfig& config, SignalWatcher& signals);

}  // namespace ringside

// Decides which turns count as interrupted: those that the server could not finish, as after a crash. Their delivered
// text is kept.
#pragma once

#include <optional>
#include <string_view>

#include "engine/token_sink.h"

namespace ringside {

/// The cause of the interruption: the engine, its device or a rank has failed, or the server is stopping
/// (`incomplete_reason` of the Response is then kInterrupted). nullopt: the turn ended by itself, or `end.error`
/// refused the request before its first token.
std::optional<Status> InterruptionOf(const TurnEnd& end, std::string_view incomplete_reason);

}  // namespace ringside

// Messages whose texts no template contains and none changes: where a rendering writes them shows a template's format.
#pragma once

#include "session/chat/templates/chat_template.h"

namespace ringside {

inline const ChatMessage kQuestion = {ChatRole::kUser, "Zqa3quvx"}, kAnswer = {ChatRole::kAssistant, "Zaa4quvx"},
                         kNext = {ChatRole::kUser, "Zqb5quvx"};

}  // namespace ringside

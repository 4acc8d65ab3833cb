// Which chat template the server uses.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "session/chat/chat_template.h"

namespace ringside {

/// `wanted`: the value of --chat-template: the name of a family, or a file with Jinja source; "" = the model's own source,
/// or `plain` for a model that has none. `encoder`: the model has one, and only a source will do, or none. kInvalidArgument where it is neither, or the
/// source cannot be used.
Result<ChatTemplate> ChooseTemplate(const std::string& wanted, std::string_view models_own, bool encoder,
                                    const ChatTemplate::Facts& facts);

}  // namespace ringside

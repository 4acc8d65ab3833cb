// Selection of the server's chat template.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "session/chat/templates/chat_template.h"

namespace ringside {

/// `wanted`: value of --chat-template: a family's name or a file with Jinja source; "" = the model's own source, or
/// `plain` for a model without one. `encoder`: the model is an encoder-decoder, which takes only a source or nothing.
/// ERRORS: kInvalidArgument if `wanted` is neither, or the source is unusable.
Result<ChatTemplate> ChooseTemplate(const std::string& wanted, std::string_view models_own, bool encoder,
                                    const ChatTemplate::Facts& facts);

}  // namespace ringside

// Learns the format of a chat template from its rendering of conversations with known texts. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "session/chat/templates/template_format.h"
#include "session/chat/templates/template_run.h"

namespace ringside {

/// Returns the strings before, between and after the messages' texts.
/// ERRORS: kInvalidArgument if a text is missing, repeated or out of order, or the template fails.
Result<std::vector<std::string>> TextsAround(const TemplateRun& run, const std::vector<ChatMessage>& messages,
                                             bool generation);
/// Range [begin, end) in the text after a message of the token that ends it. Empty if there is none.
std::pair<size_t, size_t> EndToken(std::string_view close, std::string_view eos);

/// Learns the strings around each message from a few conversations. Tools use Hermes syntax until LearnTools finds
/// another. `caveats` list behaviour that no format can express.
/// ERRORS: kInvalidArgument with the reason if not even alternating questions and answers have a format.
Result<TemplateFormat> LearnMessages(const TemplateRun& run, const ChatTemplate::Facts& facts,
                                     std::vector<std::string>* caveats);

/// Learns the syntax of the template's tools, calls and results, if it is supported.
void LearnTools(const TemplateRun& run, TemplateFormat* format, std::vector<std::string>* caveats);

/// Renders many conversations both ways. kInvalidArgument where questions and answers in turn come out otherwise. Sets
/// `kinds_anew`, also for kinds that the template refuses, and `tags`; `caveats` name the kinds that come out
/// otherwise.
Status CheckFormat(const TemplateRun& run, TemplateFormat* format, std::vector<std::string>* caveats);

}  // namespace ringside

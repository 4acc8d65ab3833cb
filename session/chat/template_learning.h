// The format of a chat template, learned from what the template makes of conversations whose texts are known. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "session/chat/template_format.h"
#include "session/chat/template_run.h"

namespace ringside {

/// What stands in front of, between and behind the messages' texts. kInvalidArgument where one of them is missing, is
/// written twice or out of order, or the template fails.
Result<std::vector<std::string>> TextsAround(const TemplateRun& run, const std::vector<ChatMessage>& messages,
                                             bool generation);
/// Where in what follows a message the token is that ends it: [begin, end). Empty if there is none.
std::pair<size_t, size_t> EndToken(std::string_view close, std::string_view eos);

/// What a template writes around each message, by a few conversations. Its tools are told in Hermes' words until
/// LearnTools finds others. Where the template does what no format can, `caveats` say so. kInvalidArgument, in plain
/// words, where not even questions and answers in turn have a format.
Result<TemplateFormat> LearnMessages(const TemplateRun& run, const ChatTemplate::Facts& facts,
                                     std::vector<std::string>* caveats);

/// The syntax in which the template tells tools, writes calls and tells what they gave, if it is one of ours.
void LearnTools(const TemplateRun& run, TemplateFormat* format, std::vector<std::string>* caveats);

/// Renders many conversations both ways. kInvalidArgument where questions and answers in turn come out otherwise. Sets
/// `kinds_anew`, also for kinds that the template refuses, and `tags`; `caveats` name the kinds that come out
/// otherwise.
Status CheckFormat(const TemplateRun& run, TemplateFormat* format, std::vector<std::string>* caveats);

}  // namespace ringside

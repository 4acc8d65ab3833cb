// Reports of ignored fields: "ringside": {"ignored": [...]} in the response, the header X-Ringside-Ignored over HTTP,
// and SessionTableOptions::on_ignored for the log. Pure, except for the log.
// THREAD: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "session/session_options.h"
#include "ws/json/json_writer.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// "ignored": the names; nothing if there are none.
void WriteIgnored(JsonWriter& json, const std::vector<std::string>& ignored);
/// "ringside": {"ignored": the names, "incomplete_reason": the reason}; empty members are left out.
void WriteRingsideIgnored(JsonWriter& json, const std::vector<std::string>& ignored,
                          std::string_view incomplete_reason = "");
/// As WriteRingsideIgnored, as text without surrounding commas; "" for none.
std::string RingsideIgnored(const std::vector<std::string>& ignored);

/// A name in a form allowed in headers and log lines: visible ASCII without quotes, commas and backslashes; '_'
/// replaces other characters.
std::string PrintableName(std::string_view name);
/// Calls options.on_ignored for each name.
void NoteIgnored(const SessionTableOptions& options, const std::string& owner, const std::vector<std::string>& ignored);
/// NoteIgnored, and the answer with the header: at most 2 KiB of names, separated by commas.
HttpResponse Reported(HttpResponse answer, const SessionTableOptions& options, const HttpRequest& request,
                      const std::vector<std::string>& ignored);

}  // namespace ringside

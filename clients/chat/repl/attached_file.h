// Text files that are sent with the next message, in the form of the page: a line "File: NAME" and a fenced block,
// which every client and model can read. Bounded: a file is read only if its size is within the limit. THREAD: one.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/outcome.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {

struct AttachedFile {
  std::string name;  // without its folders
  std::string text;  // UTF-8
};

inline constexpr size_t kMostAttachedBytes = 1'000'000;

/// Reads a regular file; a leading "~/" is the home folder. ERRORS: a sentence for a missing, large, empty or binary
/// file.
Outcome<AttachedFile> ReadTextFile(const std::string& path);
/// Checks bytes of a file called `name`, as ReadTextFile does.
Outcome<AttachedFile> AttachText(const std::string& name, std::string bytes);
/// The message of a text and its files.
std::string WithFiles(const std::string& text, const std::vector<AttachedFile>& files);

/// The command /read: attaches a file, lists the attached ones (no argument) or drops them ("-"). Counts their tokens
/// against the model's longest input. Returns a sentence for the user; on an error `files` is unchanged.
std::string AttachFile(const HttpClient& http, const std::string& argument, std::vector<AttachedFile>* files);

}  // namespace ringside::client

// Text files and images that are sent with the next message. A text has the form of the page: a line "File: NAME" and a
// fenced block, which every client and model can read. Bounded: a file is read only if its size is within the limit.
// THREAD: one.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/outcome.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {

struct AttachedFile {
  std::string name;        // without its folders
  std::string text;        // UTF-8
  std::string image = {};  // in place of `text`: a data URL
};

inline constexpr size_t kMostAttachedBytes = 1'000'000;

/// Bytes of a message's image files to a server with this limit of a request; 0 = a server that does not report it.
/// Pure.
size_t MostImageBytes(int64_t max_request_bytes);

/// Reads a regular file; a leading "~/" is the home folder. A path that does not exist may have the quotes or
/// backslashes of a shell. ERRORS: a sentence for a missing, large, empty or binary file.
Outcome<AttachedFile> ReadTextFile(const std::string& argument);
/// Checks bytes of a file called `name`, as ReadTextFile does.
Outcome<AttachedFile> AttachText(const std::string& name, std::string bytes);
/// Reads a PNG, JPEG or WebP file of at most `most` bytes. ERRORS: as ReadTextFile; a sentence for another format.
Outcome<AttachedFile> ReadImageFile(const std::string& argument, size_t most);
/// The message of a text and its files, without images.
std::string WithFiles(const std::string& text, const std::vector<AttachedFile>& files);

/// The data URLs of the images among the files.
std::vector<std::string> ImagesOf(const std::vector<AttachedFile>& files);

/// The command /image: attaches an image, lists the attached ones (no argument) or drops them ("-"). The images of a
/// message may have `most` bytes in all. Returns a sentence for the user; on an error `files` is unchanged.
std::string AttachImage(const std::string& argument, size_t most, std::vector<AttachedFile>* files);
/// The command /read: attaches a file, lists the attached ones (no argument) or drops them ("-"). Counts their tokens
/// against the model's longest input. Returns a sentence for the user; on an error `files` is unchanged.
std::string AttachFile(const HttpClient& http, const std::string& argument, std::vector<AttachedFile>* files);

}  // namespace ringside::client

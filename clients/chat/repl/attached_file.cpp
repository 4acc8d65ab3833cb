#include "clients/chat/repl/attached_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "clients/chat/repl/base64.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_width.h"
#include "clients/wire/models.h"

namespace ringside::client {
namespace {

constexpr size_t kMostFileNameBytes = 120;
constexpr size_t kMostImageFileBytes = 20 << 20;  // the server's limit of one file
constexpr int64_t kTextBytes = 4 << 20;           // of a request without its images
constexpr int64_t kOtherFieldBytes = 64 << 10;    // of a request without the message
constexpr size_t kUrlHeadBytes = 100;             // of a data URL, and the fields around it

std::string Megabytes(size_t bytes) {
  const size_t tenths = bytes / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MB";
}

Failure CannotRead(const std::string& path, int error) {
  return Failure{"Cannot read " + path + ": " + std::strerror(error) + "."};
}

/// Reads at most one byte more than the limit.
Outcome<std::string> ReadBounded(int file, const std::string& path, size_t most) {
  std::string bytes(most + 1, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string WithHome(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

/// The path without the quotes or backslashes of a shell.
std::string Unquoted(const std::string& path) {
  const char quote = path.empty() ? '\0' : path.front();
  if (path.size() > 1 && (quote == '"' || quote == '\'') && path.back() == quote)
    return path.substr(1, path.size() - 2);
  std::string plain;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '\\' && i + 1 < path.size()) ++i;
    plain += path[i];
  }
  return plain;
}

/// The file that a user named. Terminals quote the path of a file that is dropped on them.
std::string PathOf(const std::string& argument) {
  return ::access(WithHome(argument).c_str(), F_OK) == 0 ? argument : Unquoted(argument);
}

/// A regular file's bytes, at most one more than the limit.
Outcome<std::string> ReadRegularFile(const std::string& path, size_t most) {
  // O_NONBLOCK: open must not block on a FIFO.
  const int file = ::open(WithHome(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CannotRead(path, errno);
  struct stat info {};
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  Outcome<std::string> bytes = regular ? ReadBounded(file, path, most) : Failure{path + " is not a regular file."};
  ::close(file);
  return bytes;
}

/// A name for display, of a path or a name.
std::string NameOf(const std::string& path) {
  std::string name = Sanitise(path.substr(path.rfind('/') + 1));
  std::ranges::replace_if(
      name, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  while (name.size() > kMostFileNameBytes) name.erase(0, FirstCluster(name));
  return name;
}

/// "" for a format that the server does not read.
std::string_view ImageType(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return "image/png";
  if (bytes.starts_with("\xFF\xD8\xFF")) return "image/jpeg";
  return bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP") ? "image/webp" : "";
}

bool HasControls(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x09 || (c > 0x0d && c < 0x1b); });
}

/// A fence that is longer than every run of backticks in the text.
std::string FenceFor(std::string_view text) {
  size_t longest = 3, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return std::string(longest + 1, '`');
}

}  // namespace

Outcome<AttachedFile> AttachText(const std::string& name, std::string bytes) {
  if (bytes.size() > kMostAttachedBytes) {
    return Failure{name + " is larger than " + std::to_string(kMostAttachedBytes / 1000) + " KB, the limit of a file."};
  }
  if (!IsUtf8(bytes) || HasControls(bytes)) {
    return Failure{name + " is a binary file; the server reads text (UTF-8) only."};
  }
  AttachedFile file{NameOf(name), {}};
  for (size_t i = 0; i < bytes.size(); ++i) {  // line ends become \n
    if (bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n') continue;
    file.text += bytes[i] == '\r' ? '\n' : bytes[i];
  }
  if (file.text.find_first_not_of(" \t\n") == std::string::npos) return Failure{name + " is empty."};
  return file;
}

Outcome<AttachedFile> ReadTextFile(const std::string& argument) {
  const std::string path = PathOf(argument);
  Outcome<std::string> bytes = ReadRegularFile(path, kMostAttachedBytes);
  if (!bytes) return bytes.failure();
  return AttachText(path.substr(path.rfind('/') + 1), std::move(*bytes));
}

// As the page: a server with a larger limit than that of text has room for a whole text and the images.
size_t MostImageBytes(int64_t max_request_bytes) {
  const int64_t request = max_request_bytes > 0 ? max_request_bytes : kTextBytes;
  const int64_t base64 = std::max(std::min(request, kTextBytes) - kOtherFieldBytes, request - kTextBytes);
  return static_cast<size_t>(std::max<int64_t>(base64, 0)) / 4 * 3;
}

Outcome<AttachedFile> ReadImageFile(const std::string& argument, size_t most) {
  const std::string path = PathOf(argument);
  most = std::min(most, kMostImageFileBytes);
  const Outcome<std::string> bytes = ReadRegularFile(path, most);
  if (!bytes) return bytes.failure();
  if (bytes->size() > most) {
    return Failure{path + " is larger than " + Megabytes(most) +
                   ", the limit of an image; the page makes large photos smaller."};
  }
  const std::string_view type = ImageType(*bytes);
  if (type.empty()) return Failure{path + " is not a PNG, JPEG or WebP image."};
  return AttachedFile{NameOf(path), {}, "data:" + std::string(type) + ";base64," + Base64(*bytes)};
}

std::vector<std::string> ImagesOf(const std::vector<AttachedFile>& files) {
  std::vector<std::string> images;
  for (const AttachedFile& file : files) {
    if (!file.image.empty()) images.push_back(file.image);
  }
  return images;
}

std::string AttachImage(const std::string& argument, size_t most, std::vector<AttachedFile>* files) {
  if (argument == "-") {
    std::erase_if(*files, [](const AttachedFile& file) { return !file.image.empty(); });
    return "No image is attached.";
  }
  if (argument.empty()) {
    std::string names;
    for (const AttachedFile& file : *files) {
      if (!file.image.empty()) names += (names.empty() ? "" : ", ") + file.name;
    }
    return names.empty() ? "/image FILE attaches a PNG, JPEG or WebP image to the next message."
                         : "Images of the next message: " + names + ". /image - drops them.";
  }
  Outcome<AttachedFile> file = ReadImageFile(argument, most);
  if (!file) return file.failure().message;
  size_t bytes = file->image.size();
  for (const std::string& image : ImagesOf(*files)) bytes += image.size();
  if (bytes > most / 3 * 4 + kUrlHeadBytes) {
    return "The images of a message may have " + Megabytes(most) + " in all.";
  }
  files->push_back(std::move(*file));
  return "Attached the image " + files->back().name + " to the next message. /image - drops it.";
}

std::string WithFiles(const std::string& text, const std::vector<AttachedFile>& files) {
  std::string message = text.find_first_not_of(" \t\n") == std::string::npos ? "" : text;
  for (const AttachedFile& file : files) {
    if (!file.image.empty()) continue;
    const std::string fence = FenceFor(file.text);
    message += (message.empty() ? "" : "\n\n") + ("File: " + file.name) + "\n" + fence + "\n" + file.text +
               (file.text.ends_with('\n') ? "" : "\n") + fence;
  }
  return message;
}

std::string AttachFile(const HttpClient& http, const std::string& argument, std::vector<AttachedFile>* files) {
  if (argument == "-") {
    files->clear();
    return "No file is attached.";
  }
  if (argument.empty()) {
    std::string names;
    for (const AttachedFile& file : *files) names += (names.empty() ? "" : ", ") + file.name;
    return names.empty() ? "/read FILE attaches a text file to the next message, /image FILE an image."
                         : "Attached to the next message: " + names + ". /read - drops them.";
  }
  Outcome<AttachedFile> file = ReadTextFile(argument);
  if (!file) return file.failure().message;
  std::vector<AttachedFile> all = *files;
  all.push_back(std::move(*file));
  const Outcome<ServedModel> model = GetModel(http);
  const Outcome<int64_t> tokens = CountTokens(http, WithFiles("", all));
  const int64_t most = model ? model->max_input_tokens : 0;
  const std::string window = most > 0 ? "the window's " + std::to_string(most) + " tokens" : "the model's window";
  const bool too_long = tokens ? most > 0 && *tokens > most : tokens.failure().code == "context_length_exceeded";
  if (too_long) return "The attached text would exceed " + window + "; attach a shorter file, or a part of it.";
  *files = std::move(all);
  return "Attached " + files->back().name + " to the next message" +
         (tokens ? ": " + std::to_string(*tokens) + " of " + window + "." : "; its tokens are not counted.");
}

}  // namespace ringside::client

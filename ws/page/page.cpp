#include "ws/page/page.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "ws/page/page_files.h"

namespace ringside {
namespace {

// Content Security Policy: only the page's own files, no framing: model output can neither run scripts nor load
// resources.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string ContentType(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  if (name.ends_with(".webmanifest")) return "application/manifest+json";
  return "application/octet-stream";
}

/// The documents "index.html" and "shared.html" have short addresses.
std::string PathOf(std::string_view name) {
  if (name == "index.html") return "/";
  return name == "shared.html" ? "/shared" : "/page/" + std::string(name);
}

HttpResponse Answer(const PageFile& file) {
  HttpResponse response;
  response.content_type = ContentType(file.name);
  response.headers = {{"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (file.name == "shared.html") response.headers.emplace_back("X-Robots-Tag", "noindex, nofollow");
  return response;
}

HttpResponse FromProgram(const PageFile& file, const HttpRequest& request) {
  HttpResponse response = Answer(file);
  const std::string tag = '"' + std::string(file.hash) + '"';
  // cached, but revalidated each time, so that no file of an old version remains after an upgrade
  response.cache_control = "no-cache";
  response.headers.emplace_back("ETag", tag);
  if (request.Header("if-none-match").find(tag) != std::string_view::npos) {
    response.status = 304;
  } else {
    response.body = file.bytes;
  }
  return response;
}

HttpResponse FromFolder(const PageFile& file, const std::string& folder) {
  std::ifstream in(std::filesystem::path(folder) / file.name, std::ios::binary);
  if (!in) return ErrorResponse(NotFound("The folder of --ui-dir has no " + std::string(file.name) + "."));
  HttpResponse response = Answer(file);
  response.body.assign(std::istreambuf_iterator<char>(in), {});
  return response;
}

}  // namespace

void AddPageRoutes(Service& service, const std::string& folder) {
  for (const PageFile& file : PageFiles()) {
    const std::string path = PathOf(file.name);
    service.open_paths.insert(path);
    if (folder.empty()) {
      service.router.AnswerAtOnce(path);
      service.router.Add("GET", path, [file](const HttpRequest& request, const Router::Parameters&) {
        return FromProgram(file, request);
      });
    } else {
      service.router.Add("GET", path, [file, folder](const HttpRequest&, const Router::Parameters&) {
        return FromFolder(file, folder);
      });
    }
  }
}

}  // namespace ringside

// The page's files as the server delivers them.
#include "ws/page/page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ringside {
namespace {

HttpResponse Get(const Service& service, const std::string& path, const std::string& tag = "") {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  if (!tag.empty()) request.headers.emplace_back("if-none-match", tag);
  return service.router.Route(request);
}

std::string Header(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(PageTest, PageIsServedWithoutAKeyAndNothingElse) {
  Service service;
  AddPageRoutes(service, "");
  const HttpResponse page = Get(service, "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("<!doctype html>"), std::string::npos);
  EXPECT_TRUE(service.open_paths.contains("/"));
  EXPECT_TRUE(service.router.IsAnsweredAtOnce("/"));
  EXPECT_EQ(Get(service, "/page/app.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(Get(service, "/page/text/markdown.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(Get(service, "/page/page.css").content_type, "text/css; charset=utf-8");
  EXPECT_EQ(Get(service, "/page/favicon.svg").content_type, "image/svg+xml");
  EXPECT_EQ(Get(service, "/page/manifest.webmanifest").content_type, "application/manifest+json");
  for (const char* path :
       {"/page/", "/page/index.html", "/page/text/", "/page/markdown.js", "/page/../etc/passwd", "/index.html"}) {
    EXPECT_EQ(Get(service, path).status, 404) << path;
  }
}

TEST(PageTest, EveryFileHasAContentSecurityPolicy) {
  Service service;
  AddPageRoutes(service, "");
  ASSERT_GT(service.open_paths.size(), 10U);
  for (const std::string& path : service.open_paths) {
    const HttpResponse file = Get(service, path);
    const std::string policy = Header(file, "Content-Security-Policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; ")) << path;
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(Header(file, "Referrer-Policy"), "no-referrer");
  }
}

TEST(PageTest, UnchangedFileReturns304) {
  Service service;
  AddPageRoutes(service, "");
  const HttpResponse first = Get(service, "/page/app.js");
  EXPECT_EQ(first.cache_control, "no-cache");
  const std::string tag = Header(first, "ETag");
  ASSERT_FALSE(tag.empty());
  EXPECT_NE(tag, Header(Get(service, "/"), "ETag"));
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag}) {
    const HttpResponse again = Get(service, "/page/app.js", known);
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(Header(again, "ETag"), tag);
  }
  EXPECT_EQ(Get(service, "/page/app.js", "\"other\"").status, 200);
}

TEST(PageTest, ReadsTheFolderForEachRequest) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ringside_page_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "index.html") << "one";
  std::ofstream(folder / "other.html") << "no part of the page";
  Service service;
  AddPageRoutes(service, folder);
  EXPECT_EQ(Get(service, "/").body, "one");
  std::ofstream(folder / "index.html") << "two";
  EXPECT_EQ(Get(service, "/").body, "two");
  EXPECT_EQ(Get(service, "/").cache_control, "no-store");
  EXPECT_FALSE(service.router.IsAnsweredAtOnce("/"));
  EXPECT_EQ(Get(service, "/page/app.js").status, 404);
  EXPECT_EQ(Get(service, "/page/other.html").status, 404);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringside

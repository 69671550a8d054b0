// The files of the dashboard's page, embedded in the program.
// Threads: any.
#pragma once

#include <span>
#include <string_view>

namespace troupe::dashboard {

struct PageFile {
  std::string_view path;  // as a browser asks for it: "/index.html"
  std::string_view type;  // "text/html; charset=utf-8"
  std::string_view bytes;
};
std::span<const PageFile> page_files();

}  // namespace troupe::dashboard

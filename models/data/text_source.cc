#include "models/data/text_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/device/storage.h"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::size_t kBinaryProbeBytes = 4096;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

class Walk {
 public:
  Walk(const std::string& split_on, const std::vector<std::string>& exclude, DocumentSink& sink,
       TextCounts& counts)
      : split_on_(split_on), sink_(sink), counts_(counts), piece_(std::make_unique<char[]>(kPieceBytes)) {
    for (const auto& path : exclude) exclude_.push_back(canonical(path));
  }

  Status input(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
      return absl::NotFoundError(absl::StrCat(path.string(), ": no such file or folder"));
    }
    if (fs::is_directory(status)) return folder(path);
    if (fs::is_regular_file(status)) return file(path);
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": neither a file nor a folder",
                                                   error ? absl::StrCat(" (", error.message(), ")") : ""));
  }

 private:
  static fs::path canonical(const fs::path& path) {
    std::error_code error;
    const fs::path full = fs::weakly_canonical(path, error);
    return error ? path : full;
  }

  Status folder(const fs::path& path) {
    std::vector<fs::path> names;
    std::error_code error;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
      names.push_back(entry->path().filename());
    }
    if (error) return device::errno_status(error.value(), absl::StrCat("list ", path.string()));
    std::sort(names.begin(), names.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    for (const fs::path& name : names) {
      const fs::path full = path / name;
      const fs::file_status status = fs::symlink_status(full, error);
      if (name.native().starts_with('.')) {
        ++counts_.skipped_hidden;
      } else if (fs::is_symlink(status)) {
        ++counts_.skipped_links;
      } else if (fs::is_directory(status)) {
        TROUPE_RETURN_IF_ERROR(folder(full));
      } else if (fs::is_regular_file(status)) {
        TROUPE_RETURN_IF_ERROR(file(full));
      } else {
        ++counts_.skipped_special;
      }
    }
    return ok();
  }

  Status file(const fs::path& path) {
    if (std::find(exclude_.begin(), exclude_.end(), canonical(path)) != exclude_.end()) return ok();
    const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (descriptor.number() < 0) return device::errno_status(errno, absl::StrCat("open ", path.string()));
    DocumentSplitter splitter(split_on_, sink_);
    bool first = true;
    while (true) {
      const ssize_t got = read(descriptor.number(), piece_.get(), kPieceBytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return device::errno_status(errno, absl::StrCat("read ", path.string()));
      if (got == 0) break;
      const std::string_view text(piece_.get(), static_cast<std::size_t>(got));
      if (first && text.substr(0, kBinaryProbeBytes).find('\0') != std::string_view::npos) {
        ++counts_.skipped_binary;
        return ok();
      }
      first = false;
      counts_.bytes += got;
      TROUPE_RETURN_IF_ERROR(splitter.feed(text));
    }
    if (first) {
      ++counts_.skipped_empty;
      return ok();
    }
    ++counts_.files;
    return splitter.end_file();
  }

  const std::string& split_on_;
  DocumentSink& sink_;
  TextCounts& counts_;
  std::vector<fs::path> exclude_;
  std::unique_ptr<char[]> piece_;
};

}  // namespace

bool DocumentSplitter::held_is_separator() const {
  std::string_view line = held_;
  if (line.ends_with('\n')) {
    line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  return line == separator_;
}

Status DocumentSplitter::emit_held() {
  const std::string text = std::exchange(held_, {});
  return text.empty() ? ok() : sink_.text(text);
}

Status DocumentSplitter::feed(std::string_view piece) {
  if (separator_.empty()) return piece.empty() ? ok() : sink_.text(piece);
  const std::size_t longest = separator_.size() + 2;  // with "\r\n"
  while (!piece.empty()) {
    const std::size_t newline = piece.find('\n');
    const std::size_t line = newline == std::string_view::npos ? piece.size() : newline + 1;
    if (!at_line_start_) {
      TROUPE_RETURN_IF_ERROR(sink_.text(piece.substr(0, line)));
      at_line_start_ = newline != std::string_view::npos;
      piece.remove_prefix(line);
      continue;
    }
    const std::size_t take = std::min(line, longest - held_.size());
    held_.append(piece.substr(0, take));
    piece.remove_prefix(take);
    if (held_.ends_with('\n')) {
      if (held_is_separator()) {
        held_.clear();
        TROUPE_RETURN_IF_ERROR(sink_.end_document());
      } else {
        TROUPE_RETURN_IF_ERROR(emit_held());
      }
    } else if (held_.size() == longest) {
      TROUPE_RETURN_IF_ERROR(emit_held());
      at_line_start_ = false;
    }
  }
  return ok();
}

Status DocumentSplitter::end_file() {
  if (!separator_.empty() && held_is_separator()) {
    held_.clear();
  } else {
    TROUPE_RETURN_IF_ERROR(emit_held());
  }
  at_line_start_ = true;
  return sink_.end_document();
}

Status read_documents(const std::vector<std::string>& inputs, const std::string& split_on,
                      const std::vector<std::string>& exclude, DocumentSink& sink, TextCounts& counts) {
  Walk walk(split_on, exclude, sink, counts);
  for (const auto& input : inputs) TROUPE_RETURN_IF_ERROR(walk.input(input));
  return ok();
}

}  // namespace troupe::data

// Text files as a stream of documents: files, and folders walked in order of name (by bytes, so the same
// everywhere).
//
// A file is a document, unless `split_on` names a line that separates documents (fortune files: "%"); that
// line belongs to none. Text is any bytes. Left out and counted: files with a zero byte in their first 4 KiB
// (binary), empty files, and, within folders, links (Debian's fortunes would come twice), names that begin
// with a dot, and what is no regular file.
//
// Threads: one caller; blocks on the disk. Limits: memory is one piece of 1 MiB and the entries of the open
// folders. Errors: an input that is missing or cannot be read, by its name; those of the sink.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::data {

struct TextCounts {
  std::int64_t files = 0;  // read
  std::int64_t bytes = 0;  // of those, separators included
  std::int64_t skipped_binary = 0, skipped_empty = 0, skipped_links = 0, skipped_hidden = 0,
               skipped_special = 0;
};

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual Status text(std::string_view piece) = 0;  // of the current document, in order; never empty
  virtual Status end_document() = 0;                // also of one without text
};

// Cuts text that comes in pieces at lines that are exactly `separator` ("\n" or "\r\n" ends a line).
class DocumentSplitter {
 public:
  // An empty separator never cuts.
  DocumentSplitter(std::string separator, DocumentSink& sink)
      : separator_(std::move(separator)), sink_(sink) {}
  Status feed(std::string_view piece);
  Status end_file();  // ends the last document

 private:
  bool held_is_separator() const;
  Status emit_held();

  std::string separator_;
  DocumentSink& sink_;
  std::string held_;  // the begin of a line that may still turn out a separator
  bool at_line_start_ = true;
};

// Feeds every document of `inputs` (files or folders) to `sink`. Files named in `exclude` are passed over.
Status read_documents(const std::vector<std::string>& inputs, const std::string& split_on,
                      const std::vector<std::string>& exclude, DocumentSink& sink, TextCounts& counts);

}  // namespace troupe::data

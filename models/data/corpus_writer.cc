#include "models/data/corpus_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/data/mapped_file.h"
#include "runtime/base/check.h"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr const char* kPublished[] = {".bin", ".json", ".idx"};
constexpr const char* kPartial[] = {".bin.partial", ".json.partial", ".idx.partial", ".lengths.partial",
                                    ".documents.partial"};

template <class T>
void put(std::vector<std::byte>& buffer, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  buffer.insert(buffer.end(), bytes, bytes + sizeof value);
}

Status flush(std::optional<device::FileWriter>& file, std::vector<std::byte>& buffer) {
  TROUPE_RETURN_IF_ERROR(file->write(buffer));
  buffer.clear();
  return ok();
}

template <class T>
Status put_buffered(std::optional<device::FileWriter>& file, std::vector<std::byte>& buffer, T value) {
  put(buffer, value);
  return buffer.size() < kBufferBytes ? ok() : flush(file, buffer);
}

void free_hash(XXH3_state_s* state) { XXH3_freeState(state); }

}  // namespace

std::vector<std::string> CorpusWriter::files(const std::string& prefix) {
  std::vector<std::string> names;
  for (const char* suffix : kPublished) names.push_back(prefix + suffix);
  for (const char* suffix : kPartial) names.push_back(prefix + suffix);
  return names;
}

CorpusWriter::CorpusWriter(std::string prefix, const CorpusWriterOptions& options, int lock)
    : prefix_(std::move(prefix)),
      options_(options),
      type_(options.vocab_size < 65500 ? TokenType::kU16 : TokenType::kI32),
      lock_(lock),
      hash_(XXH3_createState(), free_hash) {
  TROUPE_CHECK(options.vocab_size > 0 && options.max_sequence_tokens > 0);
  XXH3_64bits_reset(hash_.get());
}

StatusOr<std::unique_ptr<CorpusWriter>> CorpusWriter::create(const std::string& prefix,
                                                             const CorpusWriterOptions& options) {
  const fs::path path(prefix);
  std::error_code error;
  if (path.filename().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("output \"", prefix, "\" must end with a name, as in data/text"));
  }
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error)
    return device::errno_status(error.value(), absl::StrCat("create folder ", path.parent_path().string()));
  const std::string partial = prefix + ".bin.partial";
  const int lock = open(partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return device::errno_status(errno, absl::StrCat("open ", partial));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int failure = errno;
    close(lock);
    if (failure != EWOULDBLOCK) return device::errno_status(failure, absl::StrCat("lock ", partial));
    return absl::UnavailableError(
        absl::StrCat(partial, ": another process is preparing this corpus; wait for it"));
  }
  std::unique_ptr<CorpusWriter> writer(new CorpusWriter(prefix, options, lock));
  for (const char* suffix : kPublished) {
    if (!options.force && fs::exists(fs::symlink_status(prefix + suffix, error))) {
      return absl::AlreadyExistsError(
          absl::StrCat(prefix, suffix, ": exists; choose another output, or say --force to replace it"));
    }
  }
  TROUPE_RETURN_IF_ERROR(writer->open_parts());
  return writer;
}

Status CorpusWriter::open_parts() {
  TROUPE_ASSIGN_OR_RETURN(token_file_, device::FileWriter::create(prefix_ + ".bin.partial"));
  TROUPE_ASSIGN_OR_RETURN(length_file_, device::FileWriter::create(prefix_ + ".lengths.partial"));
  TROUPE_ASSIGN_OR_RETURN(document_file_, device::FileWriter::create(prefix_ + ".documents.partial"));
  put(document_buffer_, std::int64_t{0});
  return ok();
}

CorpusWriter::~CorpusWriter() {
  std::error_code ignored;
  for (const char* suffix : kPartial) fs::remove(prefix_ + suffix, ignored);
  close(lock_);
}

Status CorpusWriter::flush_tokens() {
  XXH3_64bits_update(hash_.get(), token_buffer_.data(), token_buffer_.size());
  return flush(token_file_, token_buffer_);
}

Status CorpusWriter::append(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    TROUPE_CHECK(token >= 0 && token < options_.vocab_size)
        << "token " << token << " of " << options_.vocab_size;
    if (sequence_tokens_ == options_.max_sequence_tokens) TROUPE_RETURN_IF_ERROR(end_sequence());
    if (type_ == TokenType::kU16) {
      put(token_buffer_, static_cast<std::uint16_t>(token));
    } else {
      put(token_buffer_, token);
    }
    if (token_buffer_.size() >= kBufferBytes) TROUPE_RETURN_IF_ERROR(flush_tokens());
    ++sequence_tokens_;
    ++document_tokens_;
    ++tokens_;
  }
  return ok();
}

Status CorpusWriter::end_sequence() {
  ++sequences_;
  return put_buffered(length_file_, length_buffer_,
                      static_cast<std::int32_t>(std::exchange(sequence_tokens_, 0)));
}

Status CorpusWriter::end_document() {
  if (std::exchange(document_tokens_, 0) == 0) return ok();
  TROUPE_RETURN_IF_ERROR(end_sequence());
  ++documents_;
  return put_buffered(document_file_, document_buffer_, sequences_);
}

// The lengths and document indices come back through a mapping, so memory stays bounded.
Status CorpusWriter::write_index() {
  TROUPE_RETURN_IF_ERROR(flush(length_file_, length_buffer_));
  TROUPE_RETURN_IF_ERROR(flush(document_file_, document_buffer_));
  TROUPE_ASSIGN_OR_RETURN(const MappedFile lengths, MappedFile::open(prefix_ + ".lengths.partial"));
  TROUPE_ASSIGN_OR_RETURN(const MappedFile documents, MappedFile::open(prefix_ + ".documents.partial"));
  TROUPE_ASSIGN_OR_RETURN(std::optional<device::FileWriter> index,
                          device::FileWriter::create(prefix_ + ".idx.partial"));
  std::vector<std::byte> buffer;
  for (const char c : {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'}) put(buffer, c);
  put(buffer, std::uint64_t{1});
  put(buffer, static_cast<std::uint8_t>(type_ == TokenType::kU16 ? 8 : 4));
  put(buffer, static_cast<std::uint64_t>(sequences_));
  put(buffer, static_cast<std::uint64_t>(documents_) + 1);
  TROUPE_RETURN_IF_ERROR(flush(index, buffer));
  TROUPE_RETURN_IF_ERROR(index->write(lengths.bytes()));
  std::int64_t pointer = 0;
  for (std::int64_t i = 0; i < sequences_; ++i) {
    TROUPE_RETURN_IF_ERROR(put_buffered(index, buffer, pointer));
    pointer += load_field<std::int32_t>(lengths.bytes(), static_cast<std::size_t>(i) * 4) * size_bytes(type_);
  }
  TROUPE_RETURN_IF_ERROR(flush(index, buffer));
  TROUPE_RETURN_IF_ERROR(index->write(documents.bytes()));
  return index->close_durably();
}

Status CorpusWriter::finish(Sidecar facts) {
  TROUPE_CHECK(document_tokens_ == 0 && !finished_) << "a document is open";
  TROUPE_RETURN_IF_ERROR(flush_tokens());
  TROUPE_RETURN_IF_ERROR(token_file_->close_durably());
  TROUPE_RETURN_IF_ERROR(write_index());
  facts.documents = documents_;
  facts.tokens = tokens_;
  facts.content_xxh3 = XXH3_64bits_digest(hash_.get());
  TROUPE_RETURN_IF_ERROR(device::write_file_durably(prefix_ + ".json.partial", to_json(facts)));
  finished_ = true;
  return ok();
}

Status CorpusWriter::publish() {
  TROUPE_CHECK(finished_);
  // Without its .idx the old corpus is gone as a whole: no old index ever stands beside new tokens.
  if (unlink((prefix_ + ".idx").c_str()) != 0 && errno != ENOENT) {
    return device::errno_status(errno, absl::StrCat("remove ", prefix_, ".idx"));
  }
  for (const char* suffix : kPublished) {
    TROUPE_RETURN_IF_ERROR(
        device::rename_durably(absl::StrCat(prefix_, suffix, ".partial"), prefix_ + suffix));
  }
  return ok();
}

}  // namespace troupe::data

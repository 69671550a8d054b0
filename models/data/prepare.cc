#include "models/data/prepare.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/data/corpus_writer.h"
#include "runtime/base/rng.h"

namespace troupe::data {
namespace {

// Sets the draws of the split apart from those of the data order, which have layer -1.
constexpr std::int32_t kLayerOfSplit = -2;

class SplitWriter final : public DocumentSink {
 public:
  SplitWriter(const Tokenizer& tokenizer, const PrepareOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  Status open() {
    const CorpusWriterOptions options{.vocab_size = tokenizer_.vocab_size(), .force = options_.force};
    const bool split = options_.validation_fraction > 0;
    TROUPE_ASSIGN_OR_RETURN(train_.writer,
                            CorpusWriter::create(options_.output + (split ? "_train" : ""), options));
    if (split) {
      TROUPE_ASSIGN_OR_RETURN(validation_.writer,
                              CorpusWriter::create(options_.output + "_validation", options));
    }
    return ok();
  }

  Status text(std::string_view piece) override {
    if (!current_) current_ = choose(document_++);
    current_->text_bytes += static_cast<std::int64_t>(piece.size());
    tokens_.clear();
    tokenizer_.encode(piece, tokens_);
    return current_->writer->append(tokens_);
  }

  Status end_document() override {
    if (!current_) return ok();
    const std::int32_t end = tokenizer_.end_of_document();
    TROUPE_RETURN_IF_ERROR(current_->writer->append({&end, 1}));
    return std::exchange(current_, nullptr)->writer->end_document();
  }

  // Everything is on the disk under temporary names before anything gets its name.
  StatusOr<PrepareReport> publish(const TextCounts& text, const std::vector<std::string>& inputs) {
    if (document_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(inputs, ", "), ": no text in the inputs: ", text.files, " files read, ",
                                                     text.skipped_binary, " binary, ", text.skipped_empty,
                                                     " empty, ", text.skipped_links, " links and ",
                                                     text.skipped_hidden, " hidden left out"));
    }
    for (const Part* part : {&train_, &validation_}) {
      if (part->writer && part->writer->documents() == 0) {
        return absl::FailedPreconditionError(
            absl::StrCat(part->writer->prefix(), ": would be empty: validation fraction ",
                         options_.validation_fraction, " of ", document_, " documents with split seed ",
                         options_.split_seed, "; change one of them, or split files into documents"));
      }
    }
    for (Part* part : {&train_, &validation_}) {
      if (!part->writer) continue;
      TROUPE_RETURN_IF_ERROR(part->writer->finish({.tokenizer = tokenizer_.name(),
                                                   .vocab_size = tokenizer_.vocab_size(),
                                                   .end_of_document = tokenizer_.end_of_document(),
                                                   .text_bytes = part->text_bytes,
                                                   .sources = text.files}));
    }
    PrepareReport report{.train = {}, .validation = std::nullopt, .text = text};
    for (Part* part : {&train_, &validation_}) {
      if (!part->writer) continue;
      TROUPE_RETURN_IF_ERROR(part->writer->publish());
      const SplitReport split{part->writer->prefix(), part->writer->documents(), part->writer->tokens(),
                              part->text_bytes};
      (part == &train_ ? report.train : report.validation.emplace()) = split;
    }
    return report;
  }

 private:
  struct Part {
    std::unique_ptr<CorpusWriter> writer;
    std::int64_t text_bytes = 0;
  };

  Part* choose(std::int64_t document) {
    if (!validation_.writer) return &train_;
    const RandomStream stream({.seed = options_.split_seed, .sample = document, .layer = kLayerOfSplit});
    return stream.uniform(0) < options_.validation_fraction ? &validation_ : &train_;
  }

  const Tokenizer& tokenizer_;
  const PrepareOptions& options_;
  Part train_, validation_;
  Part* current_ = nullptr;  // of the open document, once it has text
  std::int64_t document_ = 0;
  std::vector<std::int32_t> tokens_;
};

void add_split(const SplitReport& split, std::string& text) {
  absl::StrAppend(&text, split.prefix, ": ", split.documents, " documents, ", split.tokens, " tokens, ",
                  split.text_bytes, " bytes of text\n");
}

}  // namespace

StatusOr<PrepareReport> prepare(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                                const PrepareOptions& options) {
  if (inputs.empty()) return absl::InvalidArgumentError("no inputs; name text files or folders");
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("validation fraction is ", options.validation_fraction,
                                                   ", must be at least 0 and below 1"));
  }
  if (options.split_on.find_first_of("\r\n") != std::string::npos) {
    return absl::InvalidArgumentError("the line to split on must not contain a line end");
  }
  SplitWriter splits(tokenizer, options);
  TROUPE_RETURN_IF_ERROR(splits.open());
  // The output may lie within an input folder: it is no text of the corpus.
  std::vector<std::string> own;
  for (const char* suffix : {"", "_train", "_validation"}) {
    for (auto& file : CorpusWriter::files(options.output + suffix)) own.push_back(std::move(file));
  }
  TextCounts counts;
  TROUPE_RETURN_IF_ERROR(read_documents(inputs, options.split_on, own, splits, counts));
  return splits.publish(counts, inputs);
}

std::string to_text(const PrepareReport& report) {
  std::string text;
  add_split(report.train, text);
  if (report.validation) add_split(*report.validation, text);
  absl::StrAppend(&text, report.text.files, " files read, ", report.text.bytes, " bytes");
  std::vector<std::string> skipped;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) skipped.push_back(absl::StrCat(count, " ", what));
  };
  add(report.text.skipped_binary, "binary");
  add(report.text.skipped_empty, "empty");
  add(report.text.skipped_links, "links");
  add(report.text.skipped_hidden, "hidden");
  add(report.text.skipped_special, "special");
  if (!skipped.empty()) absl::StrAppend(&text, "; left out: ", absl::StrJoin(skipped, ", "));
  return text + "\n";
}

}  // namespace troupe::data

#include "models/checkpoint/directory.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-", kWriting = ".writing-", kDeleting = ".deleting-";

std::string step_name(StepId step) { return absl::StrFormat("step-%08d", step.value); }

// nullopt: not the name of a step's folder
std::optional<StepId> parse_step(const std::string& name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  std::int64_t step = 0;
  if (!absl::SimpleAtoi(name.substr(kStep.size()), &step) || step < 0) return std::nullopt;
  if (step_name(StepId(step)) != name) return std::nullopt;  // "step-7", "step-+0000007"
  return StepId(step);
}

StatusOr<std::vector<std::string>> folder_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return device::errno_status(error.value(), absl::StrCat("list ", folder));
  }
  return names;
}

bool is_complete(const std::string& folder) {
  std::error_code error;
  return fs::is_regular_file(absl::StrCat(folder, "/", kMarkerName), error);
}

}  // namespace

std::string checkpoints_folder(const std::string& out) { return absl::StrCat(out, "/checkpoints"); }

std::string final_folder(const std::string& out, StepId step) {
  return absl::StrCat(checkpoints_folder(out), "/", step_name(step));
}

std::string writing_folder(const std::string& out, StepId step) {
  return absl::StrCat(checkpoints_folder(out), "/", std::string(kWriting), step_name(step));
}

StatusOr<std::vector<CheckpointFolder>> list_complete(const std::string& out) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder_names(checkpoints_folder(out)));
  std::vector<CheckpointFolder> found;
  for (const std::string& name : names) {
    const std::optional<StepId> step = parse_step(name);
    std::string path = absl::StrCat(checkpoints_folder(out), "/", name);
    if (step && is_complete(path)) found.push_back({*step, std::move(path)});
  }
  std::ranges::sort(found, std::ranges::greater(), &CheckpointFolder::step);
  return found;
}

StatusOr<CheckpointFolder> newest_complete(const std::string& out) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<CheckpointFolder> all, list_complete(out));
  if (all.empty())
    return absl::NotFoundError(absl::StrCat(checkpoints_folder(out), ": no complete checkpoint"));
  return all.front();
}

Status publish(const Disk& disk, const std::string& out, StepId step) {
  const std::string writing = writing_folder(out, step), final = final_folder(out, step);
  std::error_code error;
  if (fs::exists(final, error) && is_complete(final)) {
    const Status exchanged = disk.exchange_durably(writing, final);
    if (absl::IsUnimplemented(exchanged)) {
      return absl::AlreadyExistsError(absl::StrCat(final,
                                                   ": a complete checkpoint is there and this file system "
                                                   "cannot exchange it for the new one in one step: ",
                                                   "move it away, or save into another folder"));
    }
    TROUPE_RETURN_IF_ERROR(exchanged);
    (void)disk.remove_all(
        writing);  // now the older one; where it stays, it is a leftover, the save is done all the same
    return ok();
  }
  TROUPE_RETURN_IF_ERROR(disk.remove_all(final));
  return disk.rename_durably(writing, final);
}

StatusOr<int> remove_leftovers(const Disk& disk, const std::string& out) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder_names(checkpoints_folder(out)));
  int removed = 0;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(checkpoints_folder(out), "/", name);
    const bool temporary = name.starts_with(kWriting) || name.starts_with(kDeleting);
    if (!temporary && (!parse_step(name) || is_complete(path))) continue;
    TROUPE_RETURN_IF_ERROR(disk.remove_all(path));
    ++removed;
  }
  return removed;
}

StatusOr<int> prune(const Disk& disk, const std::string& out, int keep) {
  if (keep < 1) return 0;
  TROUPE_ASSIGN_OR_RETURN(const std::vector<CheckpointFolder> all, list_complete(out));
  int removed = 0;
  for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
    // Renamed first: a folder half deleted must not look like a checkpoint.
    const std::string going =
        absl::StrCat(checkpoints_folder(out), "/", std::string(kDeleting), step_name(all[i].step));
    TROUPE_RETURN_IF_ERROR(disk.remove_all(going));
    TROUPE_RETURN_IF_ERROR(disk.rename_durably(all[i].path, going));
    TROUPE_RETURN_IF_ERROR(disk.remove_all(going));
    ++removed;
  }
  return removed;
}

}  // namespace troupe::checkpoint

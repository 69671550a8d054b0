// The pictures of a job: a frame (GET /v1/frame: actors/inspect/README.md) as rows, as text and as one line of its training.
// Threads: any; pure. Errors: none: what a frame lacks is shown as nothing.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/top/columns.h"
#include "tools/top/rates.h"

namespace troupe::top {

enum class View { kRanks, kActors, kEdges, kWaits, kCollectives, kStreams };
inline constexpr std::array kViewNames{"ranks", "actors", "edges", "waits", "collectives", "streams"};

enum class Sort { kDepth, kAge, kBusy, kGrowth, kName };
inline constexpr std::array kSortNames{"depth", "age", "busy", "growth", "name"};

// How a line looks; a second sign beside what it says.
enum class Look { kPlain, kTitle, kHeader, kSelected, kBad, kNote, kDim };

struct Row {
  std::string id;  // of an actor: rank/name
  Cells cells;
  std::array<double, 4> weights{};  // by Sort; the heaviest comes first
  Look look = Look::kPlain;
};
struct Rows {
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string none;  // said where there are no rows
  std::array<int, kSortNames.size()> sort_columns{-1, -1, -1, -1, -1};  // by which it sorts; -1: not at all, so they stay as they come
};

// All views but kWaits. As they come: by rank, then as the ranks list them.
Rows rows_of(View view, const nlohmann::json& frame, const Rates& rates);
std::vector<std::string> waits_text(const nlohmann::json& frame);
// Of GET /v1/mailbox and, if it is there, /v1/peek.
std::vector<std::string> actor_text(const nlohmann::json& mailbox, const nlohmann::json& peek);

// "training" of whichever rank has it; null if none.
const nlohmann::json& training_of(const nlohmann::json& frame);
std::string training_text(const nlohmann::json& training);
// "2 ranks answer, 1 silent; 14 actors: 3 wait, 1 handles; ...".
std::string summary_text(const nlohmann::json& frame);

// "12.3k", "4.0M".
std::string short_number(double value);

}  // namespace troupe::top

// What `troupe top` shows and what its keys do, without a terminal: frames and keys in, lines out.
//
// A picture stays until the next one comes; one that is old says so. Pausing stops the picture, never the job.
// Threads: one. Owns: the last frame, and where the reader is in it. Units: now_s: seconds since 1970.
// Invariants: lines() gives at most `rows` lines of at most `columns` characters (TopModel.FitsEveryScreen).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/top/keys.h"
#include "tools/top/views.h"

namespace troupe::top {

struct Size {
  std::size_t rows = 24, columns = 80;
};
struct Line {
  std::string text;
  Look look = Look::kPlain;
};

class Model {
 public:
  explicit Model(std::string job) : job_(std::move(job)) {}

  void frame(nlohmann::json frame, double now_s);
  void no_answer(const std::string& why);
  void job_ended(double now_s);  // from here on any key leaves
  // Of opened(); `why`: where there is no such actor any more.
  void actor(const std::string& id, nlohmann::json mailbox, nlohmann::json peek, const std::string& why = "");

  void key(int key);
  bool leaves() const { return leaves_; }
  // rank/name of the actor that is looked into; empty: none.
  const std::string& opened() const { return opened_; }
  std::vector<Line> lines(Size size, double now_s);

 private:
  struct Picture {
    nlohmann::json frame = nlohmann::json::object();
    Rates rates;
    double seen_s = 0;
  };
  bool filter_key(int key);
  bool view_key(int key);
  bool sort_key(int key);
  void move(int key);
  void open_selected();
  void show(View view);
  void pause();
  bool is_text() const { return help_ || !opened_.empty() || view_ == View::kWaits; }

  std::vector<Line> head(Size size, double now_s) const;
  std::vector<Line> body(std::size_t rows, std::size_t columns);
  std::vector<Line> text_body(std::size_t rows, std::size_t columns);
  std::string title(double now_s) const;
  std::string foot() const;
  std::string matter() const;
  std::vector<Row> chosen_rows(const Rows& all) const;

  const std::string job_;
  Picture latest_, shown_;
  nlohmann::json training_;
  double training_seen_s_ = 0;
  std::string trouble_;
  double ended_s_ = 0;

  View view_ = View::kActors;
  Sort sort_ = Sort::kDepth;
  std::string filter_, opened_, actor_trouble_;
  nlohmann::json mailbox_, peek_;
  bool typing_ = false, paused_ = false, help_ = false, leaves_ = false;

  std::string selected_;              // the id of a row
  bool stays_on_top_ = true;          // nobody has gone down from the first row: that is selected, whichever it is
  std::vector<std::string> ids_;      // of the rows as they were last shown
  std::size_t first_ = 0, page_ = 1;  // of what is shown; rows on a page
};

}  // namespace troupe::top

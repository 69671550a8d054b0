// One rank over UCX, told by lines on stdin what to do; says what it saw in lines on stdout.
//   proc_ucx_peer RANK WORLD HEARTBEAT_TIMEOUT_MS FIRST_CONTACT_TIMEOUT_MS SPIN_US
//   -> address HEX            <- peers HEX HEX ...      -> ready
//   or                        <- reachable HEX HEX ...  -> reachable   <- start  -> ready
//   <- ping RANK COUNT        -> latency P50_NS P99_NS MAX_NS      one way, half of there and back
//   <- flood RANK BYTES COUNT -> flooded SECONDS                   at most four at once, fetched at once
//   <- both RANK BYTES COUNT  -> flooded SECONDS, then latency ... of pings that left every 200 us while it
//   lasted
//   <- send RANK              -> sent STATUS
//   <- intact                 -> intact yes|no|open             whether the place of fetches that failed is as they left it
//   <- quit
// Unasked: down RANK CAUSE; got BYTES good|bad for each bulk whose header says so.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "comm/ucx/ucx_transport.h"
#include "runtime/base/check.h"

namespace troupe::comm {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

void say(const std::string& line) {
  const std::string text = line + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    hex += digits;
  }
  return hex;
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::byte pattern_at(std::size_t i) { return static_cast<std::byte>((i * 131 + (i >> 9)) & 0xff); }

class PeerProgram {
 public:
  explicit PeerProgram(const UcxOptions& options) {
    auto opened = UcxTransport::open(options);
    TROUPE_CHECK(opened.ok()) << opened.status();
    transport_ = std::move(*opened);
    transport_->handle(Channel::kTest, [this](Arrival arrival) { take(std::move(arrival)); });
    transport_->on_peer_down([](Rank rank, const Status& cause) {
      say("down " + std::to_string(rank.value) + " " + std::string(cause.message()));
    });
  }

  void run() {
    say("address " + hex_of(transport_->address()));
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string command;
      words >> command;
      if (command == "peers" || command == "reachable") {
        set_peers(words);
        if (command == "peers") {
          start();
        } else {
          transport_->be_reachable();
          say("reachable");
        }
      } else if (command == "start") {
        start();
      } else if (command == "ping") {
        int rank = 0, count = 0;
        words >> rank >> count;
        ping_one_by_one(Rank{rank}, count);
      } else if (command == "flood" || command == "both") {
        int rank = 0, count = 0;
        std::size_t bytes = 0;
        words >> rank >> bytes >> count;
        flood(Rank{rank}, bytes, count, command == "both");
      } else if (command == "send") {
        int rank = 0;
        words >> rank;
        send(Rank{rank});
      } else if (command == "intact") {
        transport_->post([this] {
          const bool intact = std::all_of(into_.begin(), into_.end(), [](std::byte byte) { return byte == kLeft; });
          say(!left_ ? "intact open" : intact ? "intact yes" : "intact no");
        });
      } else {
        break;
      }
    }
    transport_->stop();
  }

 private:
  void set_peers(std::istringstream& words) {
    std::vector<std::string> addresses;
    for (std::string hex; words >> hex;) addresses.push_back(bytes_of_hex(hex));
    transport_->set_peers(std::move(addresses));
  }
  void start() {
    TROUPE_CHECK(transport_->start().ok());
    say("ready");
  }

  void take(Arrival arrival) {
    const char kind = static_cast<char>(arrival.header()[0]);
    if (kind == 'p') {
      std::vector<std::byte> pong(arrival.header().begin(), arrival.header().end());
      pong[0] = std::byte{'q'};
      transport_->send({.to = arrival.from(), .header = pong});
    } else if (kind == 'q') {
      std::int64_t due_ns = 0;
      std::memcpy(&due_ns, arrival.header().data() + 8, sizeof due_ns);
      latencies_ns_.push_back((now_ns() - due_ns) / 2);
      const auto count = static_cast<int>(latencies_ns_.size());
      if (count == pings_wanted_) return pinged_.set_value();
      if (one_by_one_) ping(arrival.from(), now_ns());
    } else if (kind != 'n') {
      const auto bytes = static_cast<std::size_t>(arrival.bulk_bytes());
      if (into_.size() < bytes) into_.resize(bytes);
      ++fetches_open_;
      arrival.fetch(into_.data(), [this, kind, bytes](const Status& status) {
        if (--fetches_open_ == 0 && !status.ok()) {
          std::fill(into_.begin(), into_.end(), kLeft);
          left_ = true;
        }
        if (kind != 'c') return;
        bool good = status.ok();
        for (std::size_t i = 0; i < bytes && good; ++i) good = into_[i] == pattern_at(i);
        say("got " + std::to_string(bytes) + (good ? " good" : " bad"));
      });
    }
  }

  // A pong brings `due_ns` back: what kept a ping from leaving in time counts.
  void ping(Rank rank, std::int64_t due_ns) {
    std::array<std::byte, 16> header{std::byte{'p'}};
    std::memcpy(header.data() + 8, &due_ns, sizeof due_ns);
    transport_->send({.to = rank, .header = header});
  }

  // Each leaves when the one before has come back.
  void ping_one_by_one(Rank rank, int count) {
    pinged_ = {};
    transport_->post([this, rank, count] {
      latencies_ns_.clear();
      pings_wanted_ = count;
      one_by_one_ = true;
      ping(rank, now_ns());
    });
    finish_pings();
  }

  // One every 200 us until all bulks are fetched.
  void ping_until(Rank rank, const std::future<void>& all_sent) {
    pinged_ = {};
    transport_->post([this] {
      latencies_ns_.clear();
      pings_wanted_ = -1;
      one_by_one_ = false;
    });
    int count = 0;
    for (auto due = Clock::now(); all_sent.wait_until(due) != std::future_status::ready;
         due += std::chrono::microseconds(200)) {
      ++count;
      ping(rank, std::chrono::duration_cast<std::chrono::nanoseconds>(due.time_since_epoch()).count());
    }
    transport_->post([this, count] {
      pings_wanted_ = count;
      if (static_cast<int>(latencies_ns_.size()) == count) pinged_.set_value();
    });
  }

  void finish_pings() {
    pinged_.get_future().wait();
    std::promise<std::string> text;
    transport_->post([&] {
      auto& all = latencies_ns_;
      std::sort(all.begin(), all.end());
      text.set_value("latency " + std::to_string(all[all.size() / 2]) + " " +
                     std::to_string(all[all.size() * 99 / 100]) + " " + std::to_string(all.back()));
    });
    say(text.get_future().get());
  }

  void flood(Rank rank, std::size_t bytes, int count, bool with_pings) {
    std::vector<std::byte> bulk(bytes);
    for (std::size_t i = 0; i < bytes; ++i) bulk[i] = pattern_at(i);
    const auto started = Clock::now();
    const auto all = std::make_shared<std::promise<void>>();
    auto all_sent = all->get_future();
    int sent = 0, completed = 0;  // of the progress thread
    auto send_one = [&](auto& self) -> void {
      if (sent == count) return;
      const char* kind =
          ++sent == count && !with_pings ? "c" : "b";  // the last one is checked, which takes time
      transport_->send({.to = rank,
                        .lane = Lane::kBulk,
                        .header = std::as_bytes(std::span(kind, 1)),
                        .bulk = bulk,
                        .sent = [&, all](const Status&) {
                          self(self);
                          if (++completed == count)
                            all->set_value();  // afterwards this function's frame may be gone
                        }});
    };
    transport_->post([&] {
      for (int i = 0; i < 4; ++i) send_one(send_one);
    });
    if (with_pings) ping_until(rank, all_sent);
    all_sent.wait();
    say("flooded " + std::to_string(std::chrono::duration<double>(Clock::now() - started).count()));
    if (with_pings) finish_pings();
  }

  void send(Rank rank) {
    std::promise<Status> sent;
    transport_->send({.to = rank, .header = std::as_bytes(std::span("n", 1)), .sent = [&](Status status) {
                        sent.set_value(std::move(status));
                      }});
    say("sent " + sent.get_future().get().ToString());
  }

  std::unique_ptr<UcxTransport> transport_;
  std::promise<void> pinged_;
  int pings_wanted_ = 0;                    // progress thread; below 0: not yet known
  bool one_by_one_ = true;                  // progress thread
  std::vector<std::int64_t> latencies_ns_;  // progress thread
  static constexpr std::byte kLeft{0xee};
  int fetches_open_ = 0;                    // progress thread
  bool left_ = false;                       // progress thread: a fetch has failed and none is open
  std::vector<std::byte> into_;             // progress thread
};

}  // namespace
}  // namespace troupe::comm

int main(int argc, char** argv) {
  using namespace troupe;
  TROUPE_CHECK(argc == 6) << "RANK WORLD HEARTBEAT_TIMEOUT_MS FIRST_CONTACT_TIMEOUT_MS SPIN_US";
  comm::PeerProgram peer({.rank = Rank{std::atoi(argv[1])},
                          .world = std::atoi(argv[2]),
                          .job = 42,
                          .heartbeat_timeout = std::chrono::milliseconds(std::atoi(argv[3])),
                          .first_contact_timeout = std::chrono::milliseconds(std::atoi(argv[4])),
                          .spin = std::chrono::microseconds(std::atoi(argv[5]))});
  peer.run();
}

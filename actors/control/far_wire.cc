#include "actors/control/far_wire.h"

#include "runtime/base/log.h"

namespace troupe::actors {
namespace {

// FNV-1a, 64 bits: the same in every process.
std::uint64_t number_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

FarWire::FarWire(comm::Transport& transport, device::Stream& stream) : transport_(transport), stream_(stream) {
  transport_.handle(comm::Channel::kEdges, [this](comm::Arrival arrival) { arrive(std::move(arrival)); });
}

void FarWire::add(FarEnd& end) {
  TROUPE_CHECK(ends_.emplace(number_of(end.edge_name()), &end).second) << "two ends of an edge " << end.edge_name() << " in one process";
}

std::vector<std::byte> FarWire::header_of(const FarEnd& end, int slot) {
  std::vector<std::byte> header;
  FieldWriter write(header);
  write(number_of(end.edge_name()), static_cast<std::uint32_t>(slot));
  return header;
}

void FarWire::send(const FarEnd& end, comm::Lane lane, std::span<const std::byte> header, std::span<const std::byte> bulk,
                   comm::Completion sent) {
  transport_.send({.to = end.peer(), .channel = comm::Channel::kEdges, .lane = lane, .header = header, .bulk = bulk,
                   .sent = std::move(sent)});
}

void FarWire::arrive(comm::Arrival arrival) {
  const auto header = arrival.header();
  std::uint64_t number = 0;
  if (header.size() >= sizeof number) std::memcpy(&number, header.data(), sizeof number);
  const auto found = ends_.find(number);
  const Rank from = arrival.from();
  if (header.size() < sizeof number || found == ends_.end() || found->second->peer() != from) {
    if (refused_.fetch_add(1) == 0) {
      log_error(absl::StrCat("rank ", from.value, " sent what is for no edge with it here: is it the same build, with the same config?"));
    }
    return;
  }
  auto& end = *found->second;
  const Status status = end.arrive(std::move(arrival), FieldReader(header.subspan(sizeof number)));
  if (!status.ok()) end.fail_with(status);
}

void FarWire::peer_down(Rank peer, const Status& cause) {
  for (const auto& [number, end] : ends_) {
    if (end->peer() == peer) end->fail_with(cause);
  }
}

}  // namespace troupe::actors

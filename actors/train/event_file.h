// TensorBoard's event files: what is in one, as bytes. https://www.tensorflow.org: tfrecord framing, event.proto, summary.proto.
//
// A file is records: length u64 | masked CRC-32C of these 8 bytes u32 | an Event | masked CRC-32C of it u32, little endian. The first Event is the
// version; TensorBoard takes a file that grows record by record. Threads: any; pure. Invariants: a reader of its own finds every
// record whole (EventFile.IsReadBackByAnotherReader).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::actors {

// Castagnoli's polynomial, as in iSCSI (RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);
// As the files have it: a CRC of bytes that hold CRCs would be a bad one.
std::uint32_t masked_crc32c(std::string_view bytes);

struct EventScalar {
  std::string_view tag;
  double value = 0;  // kept as a float
};

// A record each.
std::string version_record(double unix_s);
// A run goes on after `step`: TensorBoard drops what older files have of later steps.
std::string restart_record(double unix_s, std::int64_t step);
std::string scalars_record(double unix_s, std::int64_t step, std::span<const EventScalar> scalars);

// `serial` tells files of one process and second apart.
std::string event_file_name(double unix_s, const std::string& host, int pid, std::int64_t serial);

}  // namespace troupe::actors

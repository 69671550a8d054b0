#include "comm/join/secret.h"

#include <elf.h>
#include <link.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::comm {
namespace {

constexpr std::size_t kBuildBytes = 6;  // of the id; as hexadecimal digits in the text

// The build id note of the first object, which is the program itself; stops the walk.
int find_build_id(dl_phdr_info* object, std::size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const char* const end = at + segment.p_memsz;
    const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof *note;
      const char* id = name + padded(note->n_namesz);
      if (note->n_type == NT_GNU_BUILD_ID && std::string_view(name, note->n_namesz) == std::string_view("GNU", 4)) {
        static_cast<std::string*>(found)->assign(id, note->n_descsz);
        return 1;
      }
      at = id + padded(note->n_descsz);
    }
  }
  return 1;
}

std::string hash_of_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> part(1 << 16);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  std::array<unsigned char, 32> hash{};
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    EVP_DigestUpdate(context, part.data(), static_cast<std::size_t>(file.gcount()));
  }
  EVP_DigestFinal_ex(context, hash.data(), nullptr);
  EVP_MD_CTX_free(context);
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

}  // namespace

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  TROUPE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1)
      << "the system has no random numbers";
  return bytes;
}

std::string make_secret() { return absl::BytesToHexString(random_bytes(16)); }

std::string proof_of(std::string_view secret, std::string_view what) {
  std::array<unsigned char, 32> proof{};
  unsigned int length = 0;
  TROUPE_CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                    reinterpret_cast<const unsigned char*>(what.data()), what.size(), proof.data(), &length) &&
               length == proof.size())
      << "HMAC-SHA256 failed";
  return {reinterpret_cast<const char*>(proof.data()), proof.size()};
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string program_build() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
  if (id.size() < kBuildBytes) id = hash_of_program();
  return absl::StrCat(TROUPE_VERSION, "+", absl::BytesToHexString(id.substr(0, kBuildBytes)));
}

}  // namespace troupe::comm

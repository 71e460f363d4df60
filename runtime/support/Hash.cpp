#include "runtime/support/Hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

namespace sluice {

Sha256::Sha256() : context(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX *>(context), EVP_sha256(), nullptr);
}
Sha256::~Sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX *>(context));
}

void Sha256::update(const void *bytes, size_t size) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX *>(context), bytes, size);
}

std::array<uint8_t, 32> Sha256::finish() {
  std::array<uint8_t, 32> digest{};
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX *>(context), digest.data(), nullptr);
  return digest;
}

std::string toHex(const std::array<uint8_t, 32> &digest) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : digest) {
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

std::string sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return toHex(hash.finish());
}

uint64_t xxhash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

} // namespace sluice

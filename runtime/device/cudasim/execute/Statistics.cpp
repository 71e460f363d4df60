#include "runtime/device/cudasim/execute/Statistics.h"

#include "runtime/support/Status.h"

namespace sluice::cudasim {

namespace {

struct Field {
  std::string_view name;
  uint64_t Statistics::*value;
};
constexpr Field kFields[] = {
    {"warp_instructions", &Statistics::warpInstructions},
    {"thread_instructions", &Statistics::threadInstructions},
    {"global_load_bytes", &Statistics::globalLoadBytes},
    {"global_store_bytes", &Statistics::globalStoreBytes},
    {"shared_load_bytes", &Statistics::sharedLoadBytes},
    {"shared_store_bytes", &Statistics::sharedStoreBytes},
    {"local_bytes", &Statistics::localBytes},
    {"atomics", &Statistics::atomics},
    {"barriers", &Statistics::barriers},
    {"global_requests", &Statistics::globalRequests},
    {"global_sectors", &Statistics::globalSectors},
    {"distinct_load_bytes", &Statistics::distinctLoadBytes},
    {"distinct_store_bytes", &Statistics::distinctStoreBytes},
    {"shared_wavefronts", &Statistics::sharedWavefronts},
    {"bank_conflicts", &Statistics::bankConflicts},
};

} // namespace

void Statistics::add(const Statistics &other) {
  for (const Field &field : kFields)
    this->*field.value += other.*field.value;
}

std::string Statistics::json(std::string_view kernel) const {
  // Names of kernels come from PTX identifiers, which need no escapes.
  std::string text = concat("{\"kernel\":\"", kernel, "\"");
  for (const Field &field : kFields)
    text += concat(",\"", field.name, "\":", this->*field.value);
  return text + "}";
}

} // namespace sluice::cudasim

#include "runtime/checkpoint/Safetensors.h"

#include "runtime/checkpoint/StrictJson.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

namespace sluice {
namespace {

/// One tensor as its header entry states it, before any rule is checked.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
};

/// Reads the header's JSON without a tree of it: the format knows three levels, so anything deeper is refused
/// at once.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit HeaderReader(const std::string &place) : place(place) {}

  bool start_object(size_t) override {
    if (state == State::Start)
      return enter(State::Root);
    if (state == State::Entry && field == Field::None) // the value of a name
      return enter(isMetadata ? State::Metadata : State::Fields);
    return unexpected("an object");
  }

  bool end_object() override {
    if (state == State::Root)
      return enter(State::End);
    if (state == State::Fields && !finishEntry())
      return false;
    return enter(State::Root);
  }

  bool key(std::string &name) override {
    if (state == State::Root) {
      isMetadata = name == "__metadata__";
      if (isMetadata && sawMetadata)
        return fail("expected every key once, found '__metadata__' twice");
      sawMetadata |= isMetadata;
      entry = Entry();
      entry.name = std::move(name);
      seen = 0;
      field = Field::None;
      return enter(State::Entry);
    }
    if (state == State::Metadata) {
      metadataKey = std::move(name);
      return metadata.count(metadataKey) == 0 ||
             fail(concat("expected every key once, found ", inQuotes(metadataKey), " twice in __metadata__"));
    }
    field = name == "dtype"          ? Field::Dtype
            : name == "shape"        ? Field::Shape
            : name == "data_offsets" ? Field::Offsets
                                     : Field::None;
    if (field == Field::None)
      return fail(concat("tensor ", inQuotes(entry.name),
                         ": expected dtype, shape and data_offsets, found the key ", inQuotes(name)));
    unsigned bit = 1u << static_cast<unsigned>(field);
    if (seen & bit)
      return fail(concat("tensor ", inQuotes(entry.name), ": expected every key once, found ", inQuotes(name),
                         " twice"));
    seen |= bit;
    return true;
  }

  bool string(std::string &value) override {
    if (state == State::Metadata) {
      metadata.emplace(metadataKey, std::move(value));
      return true;
    }
    if (state == State::Fields && field == Field::Dtype) {
      entry.dtype = std::move(value);
      return true;
    }
    return unexpected("a text");
  }

  bool start_array(size_t) override {
    if (state == State::Fields && (field == Field::Shape || field == Field::Offsets))
      return enter(State::Numbers);
    return unexpected("an array");
  }
  bool end_array() override { return enter(State::Fields); }

  bool number_unsigned(uint64_t value) override {
    if (state != State::Numbers)
      return unexpected("a number");
    (field == Field::Shape ? entry.shape : entry.offsets).push_back(value);
    return true;
  }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string &) override {
    return unexpected("a fraction or a number beyond 64 bits");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(nlohmann::json::binary_t &) override { return unexpected("binary"); }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    return fail(
        concat("expected JSON in UTF-8, found something else near byte ", position, " of the header"));
  }

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  Status error;

private:
  enum class State { Start, Root, Entry, Metadata, Fields, Numbers, End };
  enum class Field { None, Dtype, Shape, Offsets };

  bool enter(State next) {
    state = next;
    return true;
  }
  bool fail(const std::string &finding) {
    error =
        badInputError(place, ": safetensors header: ", finding, "; the file is damaged or not safetensors");
    return false;
  }
  bool unexpected(std::string_view found) {
    switch (state) {
    case State::Start:
    case State::Root:
    case State::End:
      return fail(concat("expected an object, found ", found));
    case State::Entry:
      return fail(concat(inQuotes(entry.name), ": expected an object, found ", found));
    case State::Metadata:
      return fail(concat("__metadata__ ", inQuotes(metadataKey), ": expected a text, found ", found));
    case State::Fields:
    case State::Numbers:
      break;
    }
    std::string_view wanted = field == Field::Dtype   ? "dtype to be a text"
                              : field == Field::Shape ? "shape to be an array of whole numbers"
                                                      : "data_offsets to be an array of whole numbers";
    return fail(concat("tensor ", inQuotes(entry.name), ": expected ", wanted, ", found ", found));
  }
  bool finishEntry() {
    constexpr unsigned all = 1u << 1 | 1u << 2 | 1u << 3;
    if (seen != all)
      return fail(concat("tensor ", inQuotes(entry.name),
                         ": expected dtype, shape and data_offsets, found only some"));
    if (entry.offsets.size() != 2)
      return fail(concat("tensor ", inQuotes(entry.name), ": expected two data_offsets, found ",
                         entry.offsets.size()));
    entries.push_back(std::move(entry));
    return true;
  }

  const std::string &place;
  State state = State::Start;
  Field field = Field::None;
  bool isMetadata = false, sawMetadata = false;
  unsigned seen = 0;
  Entry entry;
  std::string metadataKey;
};

/// Bytes of a tensor of `shape`; an error when the product leaves 64 bits or does not fill whole bytes.
StatusOr<uint64_t> tensorBytes(const Entry &entry, TensorType type, const std::string &place) {
  uint64_t bits = tensorTypeBits(type);
  uint64_t elements = 1;
  for (uint64_t dimension : entry.shape)
    if (dimension > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(elements, dimension, &elements))
      return badInputError(place, ": tensor ", inQuotes(entry.name),
                           ": expected a size within 64 bits, found a shape beyond");
  if (__builtin_mul_overflow(elements, bits, &bits))
    return badInputError(place, ": tensor ", inQuotes(entry.name), ": expected a size within 64 bits, found ",
                         elements, " elements of ", tensorTypeName(type));
  if (bits % 8 != 0)
    return badInputError(place, ": tensor ", inQuotes(entry.name), ": expected whole bytes, found ", elements,
                         " elements of ", tensorTypeName(type));
  return bits / 8;
}

uint64_t readLittleEndian64(std::string_view bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i)
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

} // namespace

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (int64_t dimension : shape)
    count *= dimension;
  return count;
}

StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(MappedFile map, MappedFile::open(path));
  SLUICE_ASSIGN_OR_RETURN(SafetensorsFile file, parse(map.view(), path));
  file.map = std::move(map);
  return file;
}

StatusOr<SafetensorsFile> SafetensorsFile::parse(std::string_view bytes, std::string place) {
  SafetensorsFile file;
  file.place = std::move(place);
  if (bytes.size() < 8)
    return badInputError(file.place, ": expected a safetensors file of at least 8 bytes, found ",
                         bytes.size(), "; it is cut off or of another kind");
  const uint64_t headerSize = readLittleEndian64(bytes);
  if (headerSize > maxSafetensorsHeader)
    return badInputError(file.place, ": expected a safetensors header of at most ", maxSafetensorsHeader,
                         " bytes, found the length ", headerSize, "; the file is of another kind");
  bytes.remove_prefix(8);
  if (headerSize > bytes.size())
    return badInputError(file.place, ": expected a header of ", headerSize, " bytes, found ", bytes.size(),
                         " bytes in the rest of the file; it is cut off");
  const std::string_view header = bytes.substr(0, headerSize);
  const std::string_view data = bytes.substr(headerSize);
  if (header.empty() || header.front() != '{')
    return badInputError(file.place, ": expected a safetensors header that starts with '{', found ",
                         header.empty() ? "none" : inQuotes(header.substr(0, 1)));
  // The JSON library takes a NUL for the end of the text; the rest would go unread.
  if (header.find('\0') != std::string_view::npos)
    return badInputError(file.place, ": expected JSON in the safetensors header, found a NUL byte in it");

  HeaderReader reader(file.place);
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader))
    return reader.error;
  std::vector<Entry> &entries = reader.entries;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name);
  });

  uint64_t end = 0;
  file.views.reserve(entries.size());
  for (Entry &entry : entries) {
    std::optional<TensorType> type = tensorTypeOf(entry.dtype);
    if (!type)
      return absl::UnimplementedError(concat(file.place, ": tensor ", inQuotes(entry.name),
                                             ": expected an element type of the safetensors format, found ",
                                             inQuotes(entry.dtype)));
    SLUICE_ASSIGN_OR_RETURN(uint64_t size, tensorBytes(entry, *type, file.place));
    if (entry.offsets[0] != end)
      return badInputError(file.place, ": tensor ", inQuotes(entry.name),
                           ": expected its data to start at byte ", end, " of the data, found ",
                           entry.offsets[0], "; tensors may neither overlap nor leave a hole");
    if (entry.offsets[1] < end || entry.offsets[1] - end != size)
      return badInputError(file.place, ": tensor ", inQuotes(entry.name), ": expected ", size,
                           " bytes for its shape and type, found the span from ", end, " to ",
                           entry.offsets[1]);
    if (entry.offsets[1] > data.size())
      return badInputError(file.place, ": tensor ", inQuotes(entry.name), ": expected data up to byte ",
                           entry.offsets[1], ", found a file with ", data.size(), "; it is cut off");
    TensorView view;
    view.type = *type;
    view.shape.assign(entry.shape.begin(), entry.shape.end());
    view.data = reinterpret_cast<const uint8_t *>(data.data()) + end;
    view.bytes = size;
    view.name = std::move(entry.name);
    if (!file.index.emplace(view.name, file.views.size()).second)
      return badInputError(file.place, ": expected every tensor once, found ", inQuotes(view.name), " twice");
    file.views.push_back(std::move(view));
    end = entry.offsets[1];
  }
  if (end != data.size())
    return badInputError(file.place, ": expected ", end, " bytes of tensor data, found ", data.size(),
                         "; bytes follow the last tensor");
  file.texts = std::move(reader.metadata);
  return file;
}

const TensorView *SafetensorsFile::find(std::string_view name) const {
  auto found = index.find(absl::string_view(name.data(), name.size()));
  return found == index.end() ? nullptr : &views[found->second];
}

} // namespace sluice

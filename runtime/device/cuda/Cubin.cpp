#include "runtime/device/cuda/Cubin.h"

#include <cstring>
#include <elf.h>

namespace sluice::cuda {
namespace {

constexpr uint16_t cudaMachine = 190; // EM_CUDA

// Attributes of .nv.info sections, and the form in which these have a size and data.
constexpr uint8_t registerCount = 0x2f, frameSize = 0x11, maxThreads = 0x05, sizedValue = 0x04;
constexpr uint32_t loadLocal = 0x983, storeLocal = 0x387;

struct Section {
  std::string name;
  std::string_view bytes; // empty for one without data
  uint64_t size = 0;
  uint32_t link = 0;
};

class CubinReader {
public:
  CubinReader(std::string_view file, std::string_view place) : file(file), place(place) {}

  StatusOr<std::vector<KernelResources>> read() {
    SLUICE_RETURN_IF_ERROR(readSections());
    for (const Section &section : sections)
      if (std::string name; takeName(section, ".text.", name)) {
        kernels.push_back({std::move(name)});
        kernels.back().spills = countSpills(section.bytes);
      }
    for (const Section &section : sections) {
      std::string name;
      if (takeName(section, ".nv.shared.", name)) {
        if (KernelResources *kernel = find(name))
          kernel->sharedBytes = static_cast<int64_t>(section.size);
      } else if (section.name == ".nv.info") {
        SLUICE_RETURN_IF_ERROR(readAttributes(section, nullptr));
      } else if (takeName(section, ".nv.info.", name)) {
        SLUICE_RETURN_IF_ERROR(readAttributes(section, find(name)));
      }
    }
    return std::move(kernels);
  }

private:
  Status damaged(std::string_view what) const {
    return badInputError(place, ": expected a whole cubin, found one with ", what, "; compile it again");
  }
  template <typename T> bool load(std::string_view from, uint64_t offset, T &value) const {
    if (offset > from.size() || sizeof(T) > from.size() - offset)
      return false;
    std::memcpy(&value, from.data() + offset, sizeof(T));
    return true;
  }
  static bool takeName(const Section &section, std::string_view prefix, std::string &name) {
    if (section.name.rfind(prefix, 0) != 0)
      return false;
    name = section.name.substr(prefix.size());
    return true;
  }
  KernelResources *find(std::string_view name) {
    for (KernelResources &kernel : kernels)
      if (kernel.name == name)
        return &kernel;
    return nullptr;
  }

  Status readSections() {
    Elf64_Ehdr header;
    if (!load(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != cudaMachine)
      return badInputError(place, ": expected a cubin, found another kind of file");
    std::vector<Elf64_Shdr> headers(header.e_shnum);
    for (size_t i = 0; i < headers.size(); ++i) {
      Elf64_Shdr &entry = headers[i];
      if (!load(file, header.e_shoff + i * sizeof(Elf64_Shdr), entry))
        return damaged("a section table that is cut off");
      if (entry.sh_type != SHT_NOBITS &&
          (entry.sh_offset > file.size() || entry.sh_size > file.size() - entry.sh_offset))
        return damaged("a section that is cut off");
    }
    if (header.e_shstrndx >= headers.size())
      return damaged("no section names");
    const Elf64_Shdr &names = headers[header.e_shstrndx];
    const std::string_view text = file.substr(names.sh_offset, names.sh_size);
    for (const Elf64_Shdr &entry : headers) {
      Section section;
      if (entry.sh_name < text.size())
        section.name = text.substr(entry.sh_name, text.find('\0', entry.sh_name) - entry.sh_name);
      section.size = entry.sh_size;
      section.link = entry.sh_link;
      if (entry.sh_type != SHT_NOBITS)
        section.bytes = file.substr(entry.sh_offset, entry.sh_size);
      if (entry.sh_type == SHT_SYMTAB)
        symbols = sections.size();
      sections.push_back(std::move(section));
    }
    return absl::OkStatus();
  }

  /// The name of a symbol; empty if there is none.
  std::string symbolName(uint32_t index) const {
    Elf64_Sym symbol;
    if (symbols >= sections.size() ||
        !load(sections[symbols].bytes, uint64_t{index} * sizeof(Elf64_Sym), symbol) ||
        sections[symbols].link >= sections.size())
      return "";
    const std::string_view names = sections[sections[symbols].link].bytes;
    if (symbol.st_name >= names.size())
      return "";
    return std::string(names.substr(symbol.st_name, names.find('\0', symbol.st_name) - symbol.st_name));
  }

  /// `own` is the kernel of a section of its own; the common section names kernels by symbol.
  Status readAttributes(const Section &section, KernelResources *own) {
    for (uint64_t at = 0; at < section.bytes.size();) {
      uint8_t form = 0, attribute = 0;
      uint16_t size = 0;
      if (!load(section.bytes, at, form) || !load(section.bytes, at + 1, attribute) ||
          !load(section.bytes, at + 2, size))
        return damaged("an attribute that is cut off");
      at += 4;
      if (form != sizedValue)
        continue; // its value is in the two bytes of the size
      uint32_t first = 0, second = 0;
      const bool pair = load(section.bytes, at, first) && load(section.bytes, at + 4, second);
      if (attribute == registerCount || attribute == frameSize) {
        KernelResources *kernel = pair ? find(symbolName(first)) : nullptr;
        if (kernel)
          (attribute == registerCount ? kernel->registers : kernel->localBytes) = second;
      } else if (attribute == maxThreads && own && pair) {
        uint32_t third = 0;
        if (load(section.bytes, at + 8, third))
          own->maxThreads = int64_t{first} * second * third;
      }
      at += size;
    }
    return absl::OkStatus();
  }

  int64_t countSpills(std::string_view code) const {
    int64_t count = 0;
    uint32_t word = 0;
    for (uint64_t at = 0; load(code, at, word); at += 16)
      count += (word & 0xfff) == loadLocal || (word & 0xfff) == storeLocal;
    return count;
  }

  std::string_view file, place;
  std::vector<Section> sections;
  size_t symbols = SIZE_MAX;
  std::vector<KernelResources> kernels;
};

} // namespace

StatusOr<std::vector<KernelResources>> readCubin(std::string_view bytes, std::string_view place) {
  return CubinReader(bytes, place).read();
}

} // namespace sluice::cuda

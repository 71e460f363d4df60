#include "runtime/train/RunFolder.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/support/File.h"

#include <filesystem>
#include <set>

namespace sluice {
namespace {

using nlohmann::json;

std::string pathIn(const std::string &folder, const char *name) {
  return folder + "/" + name;
}

bool exists(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void collectDifference(const json &run, const json &asked, const std::string &path, std::string &out) {
  if (run == asked)
    return;
  if (run.is_object() && asked.is_object()) {
    std::set<std::string> keys;
    for (const json *side : {&run, &asked})
      for (const auto &[key, value] : side->items())
        keys.insert(key);
    for (const std::string &key : keys)
      collectDifference(run.contains(key) ? run[key] : json(), asked.contains(key) ? asked[key] : json(),
                        path.empty() ? key : path + "." + key, out);
    return;
  }
  auto show = [](const json &value) { return value.is_null() ? std::string("nothing") : value.dump(); };
  out += concat("  ", path, ": ", show(run), " in the run, ", show(asked), " asked for\n");
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  size_t start = 0;
  while (start < text.size()) {
    size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

/// The lines between the common beginning and the common end of two texts, at most ten of each.
std::string lineDifference(const std::string &run, const std::string &asked) {
  std::vector<std::string> a = linesOf(run), b = linesOf(asked);
  size_t head = 0, tail = 0;
  while (head < std::min(a.size(), b.size()) && a[head] == b[head])
    ++head;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  std::string out;
  auto show = [&](const std::vector<std::string> &lines, const char *mark) {
    for (size_t index = head; index < lines.size() - tail; ++index) {
      if (index - head == 10) {
        out += concat("  ", mark, " ...\n");
        break;
      }
      out += concat("  ", mark, " ", lines[index], "\n");
    }
  };
  show(a, "-");
  show(b, "+");
  return out;
}

} // namespace

std::string configDifference(const json &run, const json &asked) {
  std::string out;
  collectDifference(run, asked, "", out);
  return out;
}

StatusOr<std::optional<Executable>> runExecutable(const std::string &runFolder) {
  if (!exists(pathIn(runFolder, runConfigFile)))
    return std::optional<Executable>();
  SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(pathIn(runFolder, runExecutableFile)));
  return std::optional<Executable>(std::move(executable));
}

Status checkRunSpec(const std::string &runFolder, const std::string &spec) {
  if (!exists(pathIn(runFolder, runConfigFile)) || !exists(pathIn(runFolder, runSpecFile)))
    return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(std::string kept, readFile(pathIn(runFolder, runSpecFile)));
  if (kept == spec)
    return absl::OkStatus();
  return usageError("run '", runFolder,
                    "': expected the spec that it was started with, found another; use another ",
                    "--out, or go back to the old values (- run, + asked for)\n", lineDifference(kept, spec));
}

StatusOr<bool> holdsRun(const std::string &runFolder, const json &config) {
  std::string configPath = pathIn(runFolder, runConfigFile);
  if (exists(configPath)) {
    SLUICE_ASSIGN_OR_RETURN(std::string text, readFile(configPath));
    SLUICE_ASSIGN_OR_RETURN(json kept, parseStrictJson(text, configPath));
    std::string difference = configDifference(kept, config);
    if (!difference.empty())
      return usageError("run '", runFolder,
                        "': expected the settings that it was started with, found others; use ",
                        "another --out, or go back to the old values\n", difference);
    return true;
  }
  static const std::set<std::string> ours = {"run.lock", runExecutableFile, runSpecFile, runTokenizerFile};
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(runFolder, error)) {
    std::string name = entry.path().filename();
    if (!ours.contains(name) && name.find(".tmp-") == std::string::npos)
      return usageError("--out: expected an empty folder or a run, found '", name, "' in '", runFolder,
                        "'; name another folder");
  }
  return false;
}

Status startRun(const std::string &runFolder, const json &config, const Executable &executable,
                const std::string &spec, const std::string &tokenizer) {
  const std::string configPath = pathIn(runFolder, runConfigFile);
  SLUICE_RETURN_IF_ERROR(writeFileAtomically(pathIn(runFolder, runExecutableFile), executable.bytes));
  if (!spec.empty())
    SLUICE_RETURN_IF_ERROR(writeFileAtomically(pathIn(runFolder, runSpecFile), spec));
  SLUICE_RETURN_IF_ERROR(writeFileAtomically(pathIn(runFolder, runTokenizerFile), tokenizer));
  // The configuration comes last: a folder with it is complete.
  SLUICE_ASSIGN_OR_RETURN(std::string text, dumpStrictJson(config, configPath, 2));
  return writeFileAtomically(configPath, text + "\n");
}

StatusOr<bool> recordDevice(const std::string &runFolder, const std::string &device,
                            const std::vector<std::string> &choices) {
  const nlohmann::json record = {{"version", 1}, {"device", device}, {"choices", choices}};
  const std::string path = concat(runFolder, "/", runDeviceFile);
  bool changed = false;
  if (StatusOr<std::string> text = readFile(path); text.ok()) {
    const auto before = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    changed = before.is_object() && before.value("device", "") == device && before != record;
  }
  SLUICE_RETURN_IF_ERROR(writeFileAtomically(path, record.dump(1) + "\n"));
  return changed;
}

} // namespace sluice

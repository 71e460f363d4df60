#include "frontends/cli/Paths.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/data/Pack.h"
#include "runtime/data/Windows.h"
#include "runtime/metrics/Progress.h"

#include <cstdio>
#include <thread>
#include <unistd.h>

namespace sluice::cli {
namespace {

void printSplit(const char *name, const SplitTotals &totals) {
  std::printf("  %-10s %12llu documents %14llu tokens %14llu bytes  %.3f bytes/token\n", name,
              static_cast<unsigned long long>(totals.documents),
              static_cast<unsigned long long>(totals.tokens), static_cast<unsigned long long>(totals.bytes),
              totals.tokens ? static_cast<double>(totals.bytes) / static_cast<double>(totals.tokens) : 0.0);
}

void addPack(CLI::App &data, Invocation &invocation) {
  CLI::App *command = data.add_subcommand("pack", "Train a tokenizer and pack texts into token shards, split "
                                                  "into training and validation by document hash");
  auto options = std::make_shared<PackOptions>();
  auto documents = std::make_shared<std::string>("paragraph");
  command->add_option("TEXT", options->inputs, "Text files; - is standard input")
      ->type_name("FILE")
      ->required();
  command->add_option("--vocab", options->vocabulary, "Size of the SentencePiece BPE vocabulary to train")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--tokenizer", options->tokenizerFile,
                   "Use this SentencePiece model instead of training one")
      ->type_name("FILE");
  command->add_option("--documents", *documents, "What a document is: file, paragraph, line or jsonl:KEY")
      ->type_name("RULE")
      ->capture_default_str();
  command->add_option("--validation", options->validationFraction, "Share of documents for validation")
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Folder to make")->type_name("DATA")->required();
  command->add_flag("--replace", options->replace, "Replace a dataset that is already there");
  addThreads(*command, invocation);
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation]() -> Status {
      for (const std::string &input : options->inputs)
        if (input != "-")
          SLUICE_RETURN_IF_ERROR(requireInput("TEXT", input, "a text file"));
      if (!options->tokenizerFile.empty())
        SLUICE_RETURN_IF_ERROR(requireInput("--tokenizer", options->tokenizerFile, "a SentencePiece model"));
      SLUICE_RETURN_IF_ERROR(requireOutput("--output", options->output));
      SLUICE_ASSIGN_OR_RETURN(options->documents, DocumentRule::parse(*documents));
      options->threads = invocation.threads
                             ? invocation.threads
                             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
      bool terminal = ::isatty(STDERR_FILENO);
      std::string stage;
      options->progress = [terminal, &stage](const PackProgress &progress) {
        if (terminal && progress.total)
          std::fprintf(stderr, "\r\033[K%s %3.0f %%", progress.stage,
                       100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total));
        else if (stage != progress.stage)
          std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", progress.stage);
        stage = progress.stage;
      };
      StatusOr<PackSummary> packed = packDataset(*options);
      if (terminal)
        std::fprintf(stderr, "\r\033[K");
      if (!packed.ok())
        return packed.status();
      std::printf("%s: vocabulary %d, tokenizer %.12s, dataset %.12s\n", options->output.c_str(),
                  packed->vocabulary, packed->tokenizerHash.c_str(), packed->datasetHash.c_str());
      printSplit("train", packed->train);
      printSplit("validation", packed->validation);
      if (packed->emptyDocuments)
        std::printf("  %llu empty documents left out\n",
                    static_cast<unsigned long long>(packed->emptyDocuments));
      return absl::OkStatus();
    };
  });
}

void addInfo(CLI::App &data, Invocation &invocation) {
  CLI::App *command = data.add_subcommand("info", "Check a dataset and print its totals");
  auto folder = std::make_shared<std::string>();
  command->add_option("DATA", *folder, "A folder made by `data pack`")->type_name("DATA")->required();
  command->callback([=, &invocation] {
    invocation.action = [=]() -> Status {
      SLUICE_RETURN_IF_ERROR(requireDataset("DATA", *folder));
      SLUICE_ASSIGN_OR_RETURN(Dataset dataset, Dataset::open(*folder));
      std::printf("%s: vocabulary %lld, tokenizer %.12s, dataset %.12s\n", folder->c_str(),
                  static_cast<long long>(dataset.tokenizer().vocabulary()),
                  dataset.tokenizer().hash().c_str(), dataset.hash().c_str());
      printSplit("train", dataset.train().totals());
      printSplit("validation", dataset.validation().totals());
      return absl::OkStatus();
    };
  });
}

void addWindows(CLI::App &data, Invocation &invocation) {
  CLI::App *command = data.add_subcommand("windows", "Write training windows, in the order a run reads them, "
                                                     "as tensors `tokens` and `targets` (safetensors)");
  struct Flags {
    std::string folder, output, mode = "concatenate";
    uint64_t first = 0, count = 1, seed = 0;
    int64_t sequence = 256;
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("DATA", flags->folder, "A folder made by `data pack`")->type_name("DATA")->required();
  command->add_option("--first", flags->first, "Index of the first window")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--count", flags->count, "Number of windows")
      ->type_name("N")
      ->check(wholeNumber(1))
      ->capture_default_str();
  command->add_option("--seq", flags->sequence, "Tokens of a window")->type_name("N")->capture_default_str();
  command->add_option("--seed", flags->seed, "The run's data.seed")->type_name("N")->capture_default_str();
  command->add_option("--mode", flags->mode, "concatenate or document")
      ->type_name("MODE")
      ->check(oneOf({"concatenate", "document"}))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "Safetensors file to write")
      ->type_name("FILE")
      ->required();
  command->callback([=, &invocation] {
    invocation.action = [=]() -> Status {
      SLUICE_RETURN_IF_ERROR(requireDataset("DATA", flags->folder));
      SLUICE_RETURN_IF_ERROR(requireOutput("--output", flags->output));
      SLUICE_ASSIGN_OR_RETURN(Dataset dataset, Dataset::open(flags->folder));
      WindowOptions options;
      options.mode = flags->mode == "document" ? WindowMode::Document : WindowMode::Concatenate;
      options.seq = flags->sequence;
      options.documentSeed = options.windowSeed = flags->seed;
      SLUICE_ASSIGN_OR_RETURN(WindowStream stream,
                              WindowStream::open(dataset.train(), dataset.tokenizer(), options));
      size_t elements = flags->count * static_cast<size_t>(flags->sequence);
      std::vector<int32_t> tokens(elements), targets(elements);
      stream.batch(flags->first, flags->count, tokens.data(), targets.data());
      std::vector<int64_t> shape = {static_cast<int64_t>(flags->count), flags->sequence};
      SLUICE_ASSIGN_OR_RETURN(
          SafetensorsWriter writer,
          SafetensorsWriter::create({{"tokens", TensorType::I32, shape, tokens.data(), {}},
                                     {"targets", TensorType::I32, shape, targets.data(), {}}}));
      std::string bytes;
      SLUICE_RETURN_IF_ERROR(writer.write([&](const void *part, size_t size) {
        bytes.append(static_cast<const char *>(part), size);
        return absl::OkStatus();
      }));
      return writeFileAtomically(flags->output, bytes);
    };
  });
}

} // namespace

void addDataCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *data = app.add_subcommand("data", "Pack texts for training, look at packed data");
  data->require_subcommand(1);
  addPack(*data, invocation);
  addInfo(*data, invocation);
  addWindows(*data, invocation);
}

} // namespace sluice::cli

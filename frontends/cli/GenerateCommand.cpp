#include "frontends/cli/RunSession.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/train/Generate.h"

#include <cstdio>

namespace sluice::cli {

void addGenerateCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand("generate", "Continue a prompt with a trained model");
  struct Flags {
    std::string run, device = "cpu", checkpoint = "newest";
    GenerateOptions options;
  };
  auto flags = std::make_shared<Flags>();
  flags->options.temperature = 0.8;
  command->add_option("RUN", flags->run, "A run folder")->type_name("RUN")->required();
  command->add_option("--prompt", flags->options.prompt, "Text to continue; empty: a new document")
      ->type_name("TEXT");
  command->add_option("--tokens", flags->options.tokens, "Tokens to draw")
      ->type_name("N")
      ->check(wholeNumber(0))
      ->capture_default_str();
  command->add_option("--temperature", flags->options.temperature, "0: always the likeliest token")
      ->type_name("T")
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "Seed of the draws")
      ->check(wholeNumber(0))

      ->type_name("N")
      ->capture_default_str();
  command->add_option("--checkpoint", flags->checkpoint, "newest, best, or a checkpoint folder")
      ->type_name("CHECKPOINT")
      ->capture_default_str();
  addDevice(*command, flags->device);
  addThreads(*command, invocation);
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation]() -> Status {
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(flags->device, invocation));
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<RunSession> run,
                              RunSession::open(flags->run, flags->checkpoint, *device));
      SLUICE_ASSIGN_OR_RETURN(Tokenizer tokenizer, run->tokenizer());
      std::fputs(flags->options.prompt.c_str(), stdout);
      StatusOr<std::string> text =
          generate(run->session(), tokenizer, flags->options, [](std::string_view piece) {
            std::fwrite(piece.data(), 1, piece.size(), stdout);
            std::fflush(stdout);
          });
      std::fputs("\n", stdout);
      return text.status();
    };
  });
}

} // namespace sluice::cli

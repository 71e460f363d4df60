// Reading PTX: errors name file and line, instructions that are not simulated are listed, damaged text never
// crashes.
#include "runtime/device/cudasim/program/Decoder.h"
#include "runtime/device/cudasim/ptx/Parser.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::cudasim {
namespace {

const std::string kHeader = ".version 8.0\n.target sm_80\n.address_size 64\n";

Status decodeAll(const std::string &text) {
  SLUICE_ASSIGN_OR_RETURN(const ptx::Module module, ptx::parseModule(text, "test.ptx"));
  SymbolAddresses symbols;
  for (const ptx::Variable &variable : module.variables)
    symbols[variable.name] = uint64_t(1) << 48;
  for (const ptx::Function &function : module.functions)
    if (function.isEntry && function.hasBody)
      SLUICE_RETURN_IF_ERROR(decodeKernel(module, function, symbols).status());
  return absl::OkStatus();
}

std::string messageOf(const std::string &text) {
  return std::string(decodeAll(text).message());
}

TEST(Ptx, ErrorsNameTheLine) {
  const auto body = [](const std::string &line) {
    return kHeader + ".visible .entry k()\n{\n.reg .b32 %r<4>;\n" + line + "\nret;\n}\n";
  };
  ASSERT_TRUE(decodeAll(body("mov.u32 %r1, 7;")).ok());
  // The line is the seventh.
  for (const auto &[line, expectation] : std::vector<std::pair<std::string, std::string>>{
           {"mov.u32 %r1, 7", "expected ';', found 'ret'"},
           {"mov.u32 %r9, 7;", "expected a register that is declared, found '%r9'"},
           {"add.s32 %r1, %r2;", "expected 3 operands, found 2"},
           {"bra nowhere;", "expected a label, found 'nowhere'"},
           {"ld.global.u32 %r1, [%r1+];", "expected an offset"},
           {"mov.u64 %r1, 7;", "expected a register of 8 bytes"},
           {"mov.u32 %r1, missing;", "expected a name that is declared"},
           {"mov.u32 %r1, \x01;", "character 1"},
           {"mov.u32 %r1, 0x;", "number '0x'"},
           {".local .align 3 .b8 a[4];", "power of two"},
           {".local .align 4 .b8 a[99999999999];", "bytes"},
       }) {
    const std::string message = messageOf(body(line));
    EXPECT_NE(message.find(expectation), std::string::npos) << line << ": " << message;
    EXPECT_TRUE(message.starts_with("test.ptx:7:") || message.starts_with("test.ptx:8:")) << message;
  }
}

TEST(Ptx, UnsupportedInstructionsAreListedTogether) {
  const std::string message =
      messageOf(kHeader + ".visible .entry k()\n{\n.reg .b32 %r<4>;\nfrobnicate.u32 %r1, %r2;\n"
                          "tex.2d.v4.f32.s32 %r1, %r2;\nret;\n}\n");
  EXPECT_NE(message.find("frobnicate.u32 (line 7), tex.2d.v4.f32.s32 (line 8)"), std::string::npos)
      << message;
}

TEST(Ptx, ScopesHideOuterNames) {
  EXPECT_TRUE(decodeAll(kHeader +
                        ".visible .entry k()\n{\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n{\n.reg .b64 %r1;\n"
                        "mov.u64 %r1, 5;\nbra L;\nL:\n}\nmov.u32 %r1, 5;\nret;\n}\n")
                  .ok());
}

TEST(Ptx, JoinsArePostDominators) {
  const std::string text = kHeader +
                           ".visible .entry k()\n{\n.reg .b32 %r<4>;\n.reg .pred %p<4>;\n"
                           "@%p1 bra THEN;\nmov.u32 %r1, 1;\nbra END;\nTHEN:\nmov.u32 %r1, 2;\nEND:\n"
                           "LOOP:\nadd.s32 %r1, %r1, 1;\n@%p2 bra LOOP;\nret;\n}\n";
  StatusOr<ptx::Module> module = ptx::parseModule(text, "test.ptx");
  ASSERT_TRUE(module.ok()) << module.status();
  StatusOr<std::shared_ptr<const Kernel>> kernel = decodeKernel(*module, module->functions[0], {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const std::vector<Op> &ops = (*kernel)->ops;
  EXPECT_EQ(ops[0].target, 3u);
  EXPECT_EQ(ops[0].join, 4u); // END
  EXPECT_EQ(ops[5].target, 4u);
  EXPECT_EQ(ops[5].join, 6u); // behind the loop
}

TEST(Ptx, RecursionIsRefused) {
  EXPECT_NE(messageOf(kHeader +
                      ".func f()\n{\ncall.uni f;\nret;\n}\n.visible .entry k()\n{\ncall.uni f;\nret;\n}\n")
                .find("recursion is not simulated"),
            std::string::npos);
}

TEST(Ptx, DamagedTextIsRefusedOrRead) {
  std::mt19937 random(11);
  for (const char *file : {"kernels.ptx", "faults.ptx"}) {
    const StatusOr<std::string> text = readFile(std::string(SLUICE_TEST_DATA) + "/cudasim/" + file);
    ASSERT_TRUE(text.ok()) << text.status();
    ASSERT_TRUE(decodeAll(*text).ok()) << decodeAll(*text);
    // Cuts, changed bytes, lines that are gone, doubled or exchanged. Any result but a crash is right.
    for (int round = 0; round < 150; ++round) {
      std::string damaged = *text;
      const size_t at = random() % damaged.size();
      switch (round % 5) {
      case 0:
        damaged.resize(at);
        break;
      case 1:
        for (int i = 0; i < 4; ++i)
          damaged[random() % damaged.size()] = static_cast<char>(random());
        break;
      case 2: {
        const size_t end = damaged.find('\n', at);
        damaged.erase(at, end == std::string::npos ? std::string::npos : end - at);
        break;
      }
      case 3:
        damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 200));
        break;
      default:
        for (char &c : damaged)
          if (c >= '0' && c <= '9' && random() % 50 == 0)
            c = static_cast<char>('0' + random() % 10);
      }
      const Status status = decodeAll(damaged);
      EXPECT_LT(status.message().size(), 6000u);
    }
  }
}

} // namespace
} // namespace sluice::cudasim

#include "codegen/cuda/EmitKernel.h"

#include "codegen/cuda/MapText.h"
#include "codegen/kernel/Program.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace sluice::cuda {
namespace {

/// Writes one kernel. Values that vary along the columns are named inside the loop that walks them, all
/// others once a row.
class KernelWriter {
public:
  KernelWriter(const NamedKernel &named, const KernelProgram &program) : named(named), program(program) {}

  std::string write() {
    header();
    if (program.byColumns)
      columnsBody();
    else if (program.isFlat())
      lineBody();
    else
      rowsBody();
    text += "}\n";
    return text;
  }

private:
  void line(const llvm::Twine &statement) { text += std::string(2 * depth, ' ') + statement.str() + "\n"; }
  void open(const llvm::Twine &statement) {
    line(statement + " {");
    ++depth;
  }
  void close() {
    --depth;
    line("}");
  }

  void header() {
    text += "#include \"Reduce.cuh\"\n\n// " + commentOf(named.kernel) + "\n";
    text += "extern \"C\" __global__ void " + named.name + "(";
    for (int i = 0; i < program.inputs; ++i)
      text += llvm::formatv("{0}const float *in{1}", i ? ", " : "", i).str();
    for (size_t i = 0; i < program.outputs.size(); ++i)
      text += llvm::formatv("{0}float *out{1}", program.inputs + i ? ", " : "", i).str();
    text += ") {\n";
  }

  /// The ops of the body and where in the model they stand.
  static std::string commentOf(KernelOp kernel) {
    std::string comment;
    if (OriginAttr origin = originOf(kernel))
      comment = origin.getPath().str() + ": ";
    std::string before;
    for (Operation &op : kernel.getBody().front().without_terminator()) {
      std::string name = op.getName().stripDialect().str();
      if (OriginAttr origin = originOf(&op); origin && !origin.getRole().empty())
        name += " (" + origin.getRole().str() + ")";
      if (name != before)
        comment += (before.empty() ? "" : ", ") + name;
      before = name;
    }
    return comment;
  }

  // Names and places.
  static std::string name(int node) { return llvm::formatv("v{0}", node).str(); }
  static std::string partial(int node) { return llvm::formatv("sum{0}", node).str(); }

  std::string element(const IndexMap &index) const {
    if (flat)
      return index.isScalar() ? "0" : "column";
    llvm::SmallVector<std::string> terms;
    if (index.rows == IndexMap::Rows::All) {
      terms.push_back(index.rowStride == 1 ? "row" : llvm::formatv("row * {0}", index.rowStride).str());
    } else if (index.rows == IndexMap::Rows::Strided) {
      int64_t inner = 1;
      for (const IndexMap::Dim &dim : llvm::reverse(index.dims)) {
        if (dim.stride != 0)
          terms.push_back(llvm::formatv("row / {0} % {1} * {2}", inner, dim.size, dim.stride).str());
        inner *= dim.size;
      }
    }
    if (index.columns)
      terms.push_back("column");
    return terms.empty() ? "0" : llvm::join(terms, " + ");
  }

  // Values.
  void declare(int number) {
    const KernelNode &node = program.nodes[number];
    std::string value;
    if (node.kind == KernelNode::Kind::Input) {
      value = byFours && !node.index.isScalar()
                  ? llvm::formatv("member(four{0}, i)", node.buffer).str()
                  : llvm::formatv("in{0}[{1}]", node.buffer, element(node.index)).str();
    } else if (node.kind == KernelNode::Kind::Constant) {
      value = floatText(node.value);
    } else {
      llvm::SmallVector<std::string> operands;
      for (int operand : node.operands)
        operands.push_back(name(operand));
      return mapText(node.map, operands, name(number),
                     [&](const llvm::Twine &statement) { line(statement); });
    }
    line("const float " + name(number) + " = " + value + ";");
  }

  /// Declares what `number` needs among the values of its kind: column-varying or not. Reductions are there
  /// already.
  void demand(int number, bool columnVarying, llvm::DenseSet<int> &known) {
    const KernelNode &node = program.nodes[number];
    if (node.columnVarying != columnVarying || node.isReduction() || !known.insert(number).second)
      return;
    for (int operand : node.operands)
      demand(operand, columnVarying, known);
    declare(number);
  }

  /// Declares the values of a row (or of the kernel) that `roots` need, through column-varying ones too.
  void demandScalars(llvm::ArrayRef<int> roots) {
    llvm::SmallVector<int> pending(roots);
    llvm::DenseSet<int> seen;
    while (!pending.empty()) {
      int number = pending.pop_back_val();
      if (!seen.insert(number).second)
        continue;
      const KernelNode &node = program.nodes[number];
      if (!node.columnVarying)
        demand(number, false, scalars);
      else if (!node.isReduction())
        pending.append(node.operands.begin(), node.operands.end());
    }
  }

  void store(int output, const std::string &value) {
    line(llvm::formatv("out{0}[{1}] = {2};", output, element(program.outputs[output].index), value));
  }

  // Bodies.
  void lineBody() {
    flat = true;
    llvm::SmallVector<int> roots;
    for (const KernelOutput &output : program.outputs)
      roots.push_back(output.node);
    demandScalars(roots);
    const int64_t count = program.rows * program.columns;
    byFours = count % 4 == 0;
    if (byFours)
      return lineByFours(roots, count / 4);
    open(
        llvm::formatv("for (int64 column = globalThread(); column < {0}; column += globalThreads())", count));
    columnsOf(roots);
    for (auto [index, output] : llvm::enumerate(program.outputs))
      store(static_cast<int>(index), name(output.node));
    close();
  }

  /// Four neighbours a thread, by loads and stores of 16 bytes: operands begin at multiples of 64.
  void lineByFours(llvm::ArrayRef<int> roots, int64_t fours) {
    open(llvm::formatv("for (int64 four = globalThread(); four < {0}; four += globalThreads())", fours));
    llvm::SmallSetVector<int, 8> buffers;
    for (const KernelNode &node : program.nodes)
      if (node.kind == KernelNode::Kind::Input && !node.index.isScalar())
        buffers.insert(node.buffer);
    for (int buffer : buffers)
      line(llvm::formatv("const float4 four{0} = ((const float4 *)in{0})[four];", buffer));
    for (size_t output = 0; output < program.outputs.size(); ++output)
      line(llvm::formatv("float4 result{0};", output));
    line("#pragma unroll");
    open("for (int i = 0; i < 4; ++i)");
    columnsOf(roots);
    for (auto [index, output] : llvm::enumerate(program.outputs))
      line(llvm::formatv("member(result{0}, i) = {1};", index, name(output.node)));
    close();
    for (size_t output = 0; output < program.outputs.size(); ++output)
      line(llvm::formatv("((float4 *)out{0})[four] = result{0};", output));
    close();
  }

  /// Declares the column-varying values of `roots`, inside a loop over columns.
  void columnsOf(llvm::ArrayRef<int> roots) {
    llvm::DenseSet<int> vectors;
    for (int root : roots)
      demand(root, true, vectors);
  }

  void rowsBody() {
    line("const int64 row = blockIdx.x;");
    for (int pass = 0, passes = program.passes(); pass < passes; ++pass)
      rowsPass(pass);
    llvm::SmallVector<int> single;
    for (auto [index, output] : llvm::enumerate(program.outputs))
      if (!output.index.columns)
        single.push_back(static_cast<int>(index));
    if (single.empty())
      return;
    for (int output : single)
      demandScalars(program.outputs[output].node);
    open("if (threadIdx.x == 0)");
    for (int output : single)
      store(output, name(program.outputs[output].node));
    close();
  }

  void rowsPass(int pass) {
    llvm::SmallVector<int> reductions, outputs, roots;
    for (auto [index, node] : llvm::enumerate(program.nodes))
      if (node.isReduction() && program.nodes[node.operands[0]].level == pass) {
        reductions.push_back(static_cast<int>(index));
        roots.push_back(node.operands[0]);
      }
    for (auto [index, output] : llvm::enumerate(program.outputs))
      if (output.index.columns && program.nodes[output.node].level == pass) {
        outputs.push_back(static_cast<int>(index));
        roots.push_back(output.node);
      }
    demandScalars(roots);
    for (int reduction : reductions)
      line("float " + partial(reduction) + " = " + identity(reduction) + ";");
    open(llvm::formatv("for (int64 column = threadIdx.x; column < {0}; column += blockDim.x)",
                       program.columns));
    columnsOf(roots);
    for (int reduction : reductions)
      accumulate(reduction, partial(reduction), name(program.nodes[reduction].operands[0]));
    for (int output : outputs)
      store(output, name(program.outputs[output].node));
    close();
    for (int reduction : reductions)
      line(llvm::formatv("const float {0} = blockReduce<{1}>({2});", name(reduction), operation(reduction),
                         partial(reduction)));
  }

  void columnsBody() {
    llvm::SmallVector<int> reductions, roots, results;
    for (auto [index, node] : llvm::enumerate(program.nodes))
      if (node.isOverRows()) {
        reductions.push_back(static_cast<int>(index));
        roots.push_back(node.operands[0]);
      }
    for (const KernelOutput &output : program.outputs)
      results.push_back(output.node);
    line("const int part = threadIdx.x / 32;");
    line("const int64 column = (int64)blockIdx.x * 32 + lane();");
    for (int reduction : reductions) {
      line("__shared__ float parts" + llvm::Twine(reduction) + "[8][32];");
      line("float " + partial(reduction) + " = " + identity(reduction) + ";");
    }
    open(llvm::formatv("if (column < {0})", program.columns));
    open(llvm::formatv("for (int64 row = part; row < {0}; row += 8)", program.rows));
    llvm::DenseSet<int> outside = scalars;
    demandScalars(roots);
    columnsOf(roots);
    scalars = outside; // those of a row are gone with it
    for (int reduction : reductions)
      accumulate(reduction, partial(reduction), name(program.nodes[reduction].operands[0]));
    close();
    close();
    for (int reduction : reductions)
      line(llvm::formatv("parts{0}[part][lane()] = {1};", reduction, partial(reduction)));
    line("__syncthreads();");
    line(llvm::formatv("if (part != 0 || column >= {0})", program.columns));
    line("  return;");
    for (int reduction : reductions) {
      open("for (int other = 1; other < 8; ++other)");
      accumulate(reduction, partial(reduction), llvm::formatv("parts{0}[other][lane()]", reduction).str());
      close();
      line("const float " + name(reduction) + " = " + partial(reduction) + ";");
    }
    demandScalars(results); // nothing here depends on a row
    columnsOf(results);
    for (size_t output = 0; output < program.outputs.size(); ++output)
      store(static_cast<int>(output), name(program.outputs[output].node));
  }

  std::string identity(int reduction) const {
    return program.nodes[reduction].isMaximum() ? "negativeInfinity()" : "0.0f";
  }
  std::string operation(int reduction) const {
    return program.nodes[reduction].isMaximum() ? "Maximum" : "Sum";
  }
  void accumulate(int reduction, const std::string &into, const std::string &value) {
    if (program.nodes[reduction].isMaximum())
      line(into + " = maximum(" + into + ", " + value + ");");
    else
      line(into + " += " + value + ";");
  }

  const NamedKernel &named;
  const KernelProgram &program;
  std::string text;
  unsigned depth = 1;
  bool flat = false, byFours = false;
  llvm::DenseSet<int> scalars;
};

} // namespace

FailureOr<TranslationUnit> emitKernel(const NamedKernel &kernel) {
  FailureOr<KernelProgram> program = readKernelProgram(kernel.kernel);
  if (failed(program))
    return mlir::failure();
  return TranslationUnit{kernel.name + ".cu", KernelWriter(kernel, *program).write()};
}

} // namespace sluice::cuda

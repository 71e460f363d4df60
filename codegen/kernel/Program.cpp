#include "codegen/kernel/Program.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace sluice {

bool IndexMap::operator==(const IndexMap &other) const {
  return rows == other.rows && columns == other.columns && rowStride == other.rowStride &&
         llvm::equal(dims, other.dims,
                     [](const Dim &a, const Dim &b) { return a.size == b.size && a.stride == b.stride; });
}

bool isKernelPrimitive(Operation *op) {
  return isa<MapOp, ReduceOp, BroadcastOp, ReshapeOp, ConstantOp>(op);
}

int KernelProgram::passes() const {
  int last = -1;
  for (const KernelNode &node : nodes)
    if (node.isReduction())
      last = std::max(last, nodes[node.operands[0]].level);
  for (const KernelOutput &output : outputs)
    if (nodes[output.node].columnVarying || output.index.columns)
      last = std::max(last, nodes[output.node].level);
  return last + 1;
}

bool KernelProgram::isFlat() const {
  if (byColumns)
    return false;
  for (const KernelNode &node : nodes) {
    if (node.isReduction())
      return false;
    if (node.kind == KernelNode::Kind::Input && !node.index.isScalar() && !node.index.isWhole(columns))
      return false;
  }
  return llvm::all_of(outputs, [&](const KernelOutput &output) { return output.index.isWhole(columns); });
}

const char *domainName(const KernelProgram &program) {
  return program.byColumns ? "columns" : program.isFlat() ? "line" : "rows";
}

bool KernelProgram::mayOverwrite(int input, int output) const {
  const KernelOutput &target = outputs[output];
  if (!byColumns && !target.index.isWhole(columns))
    return false;
  // The last pass that reads the input must not come after the one that writes the output.
  int writtenIn = nodes[target.node].level;
  std::vector<int> lastUse(nodes.size(), -1);
  for (const KernelOutput &other : outputs)
    lastUse[other.node] = std::max(lastUse[other.node], nodes[other.node].level);
  for (int i = static_cast<int>(nodes.size()) - 1; i >= 0; --i) {
    for (int operand : nodes[i].operands) {
      int use = nodes[i].isReduction() ? nodes[operand].level : lastUse[i];
      lastUse[operand] = std::max(lastUse[operand], use);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].kind == KernelNode::Kind::Input && nodes[i].buffer == input &&
        (!(nodes[i].index == target.index) || lastUse[i] > writtenIn))
      return false;
  return true;
}

namespace {

/// Walks a kernel's body from its results and gathers nodes.
class Reader {
public:
  explicit Reader(KernelOp kernel) : kernel(kernel) {}

  FailureOr<KernelProgram> read() {
    auto rows = kernel.getSettings().getAs<IntegerAttr>("rows");
    auto columns = kernel.getSettings().getAs<IntegerAttr>("columns");
    if (!rows || !columns)
      return kernel.emitOpError("of a generated kind needs the settings `rows` and `columns`"), failure();
    program.byColumns = kernel.getKind() == "columns";
    program.rows = rows.getInt();
    program.columns = columns.getInt();
    program.inputs = static_cast<int>(kernel.getInputs().size());
    for (Value value : kernel.getBody().front().getTerminator()->getOperands()) {
      auto type = cast<RankedTensorType>(value.getType());
      FailureOr<int> node = resolve(value, type.getShape());
      if (failed(node))
        return failure();
      FailureOr<IndexMap> index = indexOf(type.getShape(), type.getShape());
      if (failed(index))
        return failure();
      bool perRow = index->rows != IndexMap::Rows::None;
      if (perRow == program.byColumns && program.rows != 1)
        return refuse() << "of kind '" << kernel.getKind() << "' cannot return " << type, failure();
      program.outputs.push_back({*node, *index});
    }
    return std::move(program);
  }

private:
  InFlightDiagnostic refuse() { return kernel.emitOpError(); }

  static int64_t leading(ArrayRef<int64_t> shape) {
    int64_t product = 1;
    for (int64_t size : shape.drop_back(shape.empty() ? 0 : 1))
      product *= size;
    return product;
  }
  static int64_t last(ArrayRef<int64_t> shape) { return shape.empty() ? 1 : shape.back(); }

  /// Whether a value of this shape takes part in the domain.
  bool fits(ArrayRef<int64_t> shape) const {
    int64_t rows = leading(shape), columns = last(shape);
    return (rows == 1 || rows == program.rows) && (columns == 1 || columns == program.columns);
  }

  /// How a buffer of `shape` is read when the loop runs over `iteration`.
  FailureOr<IndexMap> indexOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> iteration) {
    if (!fits(iteration) || shape.size() > iteration.size()) {
      refuse() << "works on [" << program.rows << ", " << program.columns
               << "], which a value of another shape does not fit";
      return failure();
    }
    llvm::SmallVector<int64_t> aligned(iteration.size() - shape.size(), 1);
    aligned.append(shape.begin(), shape.end());
    IndexMap map;
    map.columns = last(shape) != 1;
    llvm::SmallVector<IndexMap::Dim> dims;
    int64_t stride = last(shape);
    bool all = true;
    for (int64_t axis = static_cast<int64_t>(iteration.size()) - 2; axis >= 0; --axis) {
      dims.insert(dims.begin(), {iteration[axis], aligned[axis] == 1 ? 0 : stride});
      all &= aligned[axis] == iteration[axis];
      stride *= aligned[axis];
    }
    // A domain of one row or one column is still one line: its full values are whole, not repeated.
    bool whole = leading(shape) == program.rows && last(shape) == program.columns;
    if (leading(shape) == 1 && !(whole && program.rows == 1))
      return map;
    map.columns |= whole;
    map.rows = all ? IndexMap::Rows::All : IndexMap::Rows::Strided;
    if (all)
      map.rowStride = last(shape);
    else
      map.dims = dims;
    return map;
  }

  int add(KernelNode node) {
    for (int operand : node.operands) {
      const KernelNode &input = program.nodes[operand];
      node.rowVarying |= input.rowVarying && !node.isOverRows();
      node.columnVarying |= input.columnVarying;
      node.level = std::max(node.level, input.level);
    }
    if (node.isReduction()) {
      node.columnVarying = node.isOverRows();
      ++node.level;
    }
    program.nodes.push_back(std::move(node));
    return static_cast<int>(program.nodes.size()) - 1;
  }
  int add(KernelNode::Kind kind, int operand) {
    KernelNode node;
    node.kind = kind;
    node.operands = {operand};
    return add(std::move(node));
  }

  FailureOr<int> input(Value value, int buffer, ArrayRef<int64_t> shape, ArrayRef<int64_t> iteration) {
    if (!cast<RankedTensorType>(value.getType()).getElementType().isF32())
      return refuse() << "reads " << value.getType() << "; generated kernels read f32", failure();
    FailureOr<IndexMap> index = indexOf(shape, iteration);
    if (failed(index))
      return failure();
    for (auto [number, node] : llvm::enumerate(program.nodes))
      if (node.kind == KernelNode::Kind::Input && node.buffer == buffer && node.index == *index)
        return static_cast<int>(number);
    KernelNode node;
    node.kind = KernelNode::Kind::Input;
    node.buffer = buffer;
    node.index = *index;
    node.rowVarying = index->rows != IndexMap::Rows::None;
    node.columnVarying = index->columns;
    return add(std::move(node));
  }

  /// The node of `value` as seen by a loop over `iteration`.
  FailureOr<int> resolve(Value value, ArrayRef<int64_t> iteration) {
    // A reshaped buffer is the same buffer under another shape.
    Value root = value;
    while (auto reshape = root.getDefiningOp<ReshapeOp>())
      root = reshape.getX();
    if (auto argument = dyn_cast<BlockArgument>(root))
      return input(value, static_cast<int>(argument.getArgNumber()),
                   cast<RankedTensorType>(value.getType()).getShape(), iteration);
    if (auto found = known.find(root.getDefiningOp<ConstantOp>() ? root : value); found != known.end())
      return found->second;
    if (auto constant = root.getDefiningOp<ConstantOp>()) {
      KernelNode node;
      node.value = constant.getValue().convertToDouble();
      return known[root] = add(std::move(node));
    }
    FailureOr<int> node = define(value);
    if (succeeded(node))
      known[value] = *node;
    return node;
  }

  FailureOr<int> define(Value value) {
    Operation *op = value.getDefiningOp();
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    if (!isa<ReshapeOp>(op) && !fits(shape))
      return refuse() << "works on [" << program.rows << ", " << program.columns << "], which '"
                      << op->getName() << "' of " << value.getType() << " does not fit",
             failure();
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      ArrayRef<int64_t> from = cast<RankedTensorType>(reshape.getX().getType()).getShape();
      if (last(from) != last(shape) || leading(from) != leading(shape))
        return refuse() << "holds a reshape that mixes rows and columns", failure();
      return resolve(reshape.getX(), from);
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return resolve(broadcast.getX(), shape);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return defineReduce(reduce);
    if (auto map = dyn_cast<MapOp>(op)) {
      KernelNode node;
      node.kind = KernelNode::Kind::Map;
      node.map = map;
      for (Value operand : map.getInputs()) {
        FailureOr<int> input = resolve(operand, shape);
        if (failed(input))
          return failure();
        node.operands.push_back(*input);
      }
      return add(std::move(node));
    }
    return refuse() << "holds '" << op->getName() << "', which generated kernels do not compute", failure();
  }

  FailureOr<int> defineReduce(ReduceOp reduce) {
    ArrayRef<int64_t> from = cast<RankedTensorType>(reduce.getX().getType()).getShape();
    FailureOr<int> x = resolve(reduce.getX(), from);
    if (failed(x))
      return failure();
    int64_t rank = static_cast<int64_t>(from.size());
    bool overLast = reduce.getAxes().size() == 1 && reduce.getAxes()[0] == rank - 1;
    if (!program.byColumns && overLast && last(from) == program.columns)
      return add(reduce.isSum() ? KernelNode::Kind::RowSum : KernelNode::Kind::RowMax, *x);
    // Every leading axis of more than one element must be summed.
    bool overLeading = !llvm::is_contained(reduce.getAxes(), rank - 1);
    for (int64_t axis = 0; axis + 1 < rank; ++axis)
      overLeading &= from[axis] == 1 || llvm::is_contained(reduce.getAxes(), axis);
    if (program.byColumns && overLeading && leading(from) == program.rows)
      return add(reduce.isSum() ? KernelNode::Kind::ColumnSum : KernelNode::Kind::ColumnMax, *x);
    return refuse() << "of kind '" << kernel.getKind() << "' cannot sum over axes [" << reduce.getAxes()
                    << "] of " << reduce.getX().getType(),
           failure();
  }

  KernelOp kernel;
  KernelProgram program;
  llvm::DenseMap<Value, int> known;
};

} // namespace

FailureOr<KernelProgram> readKernelProgram(KernelOp kernel) {
  return Reader(kernel).read();
}

} // namespace sluice

// The planned program: where every value lives and in which order commands run.
#ifndef PLAN_OPS_TD
#define PLAN_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::sluice::plan";
  let summary = "The planned program: arenas, commands, kernels.";
  let description = [{
    After the *plan* phase an entry point is a list of `plan.command` ops. Each holds the original ops in its region (so
    that counting, interpreting and printing still work) and says which command of the device's library, or which
    generated kernel, stands for them, where operands and results live, and which earlier commands it waits for.
    SSA values remain, so that the memory plan can be checked against the values: the interpreter runs planned graphs
    through simulated arenas and finds any value that was overwritten too early. Codegen packs this into the executable.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Plan_Op<string opMnemonic, list<Trait> traits = []> : Op<Plan_Dialect, opMnemonic, traits>;

def Plan_SlotAttr : AttrDef<Plan_Dialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "A place in an arena.";
  let description = "Example: `#plan.slot<\"activations\", 4096>`: bytes from the arena's start, a multiple of 64.";
  let parameters = (ins StringRefParameter<"arena">:$arena, "int64_t":$offset);
  let assemblyFormat = "`<` $arena `,` $offset `>`";
  let genVerifyDecl = 1;
}

def Plan_ArenaOp : Plan_Op<"arena", [Symbol]> {
  let summary = "A piece of memory of fixed size with one lifetime class.";
  let description = "`lifetime` is parameters, gradients, optimizer, activations or io. Module-level.";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$bytes, StrAttr:$lifetime);
  let assemblyFormat = "$sym_name $bytes `lifetime` $lifetime attr-dict";
  let hasVerifier = 1;
}

def Plan_CommandOp : Plan_Op<"command", [IsolatedFromAbove, SingleBlock]> {
  let summary = "One command of the program.";
  let description = [{
    `kind` is a command of docs/commands.md, or `launch`: then `settings` names the generated kernel as `kernel`.
    `inputs`/`results` are values of the graph; `input_slots`/`result_slots` their places, in the command's operand
    order. Commands that update state in place name it in `states`: the state symbols whose slots follow the results as
    further outputs (`adamw`, accumulating products). `dependencies` are numbers of earlier commands of this entry.
    The region holds the original ops; its block arguments are the inputs, then the present values of `states`; it yields
    the results, then the new values of `states`.
  }];
  let arguments = (ins StrAttr:$kind, I64Attr:$number, Variadic<AnyType>:$inputs, ArrayAttr:$input_slots,
                       ArrayAttr:$result_slots, ArrayAttr:$states, DenseI64ArrayAttr:$dependencies,
                       DictionaryAttr:$settings);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif // PLAN_OPS_TD

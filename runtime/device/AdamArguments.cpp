#include "runtime/device/AdamArguments.h"

#include "runtime/device/MaskArguments.h"

namespace sluice {

AdamArguments adamArguments(Arguments &arguments, size_t firstScalar) {
  AdamArguments adam;
  for (size_t i = 0; i < 4; ++i) {
    adam.places[i] = arguments.input(i);
    const Tensor output = arguments.output(i);
    arguments.require(output.data == adam.places[i].data && output.elements == adam.places[i].elements,
                      "w, m, v and gradient are updated in place: outputs must be the first four inputs");
    arguments.require(adam.places[i].elements == adam.places[0].elements,
                      "w, m, v and gradient must have one size");
    adam.scalars[i] = arguments.anyInput(firstScalar + i);
    arguments.elements(adam.scalars[i], 1, "learning_rate, step, tokens and norm");
    arguments.require(adam.scalars[i].type != ElementType::BF16 && adam.scalars[i].type != ElementType::U8,
                      "learning_rate, step, tokens and norm must be f32, f64, i32 or i64");
  }
  AdamSettings &settings = adam.settings;
  settings = {arguments.number("beta1"), arguments.number("beta2"), arguments.number("epsilon"),
              arguments.number("weight_decay"), arguments.number("clip")};
  arguments.require(settings.beta1 >= 0 && settings.beta1 < 1 && settings.beta2 >= 0 && settings.beta2 < 1,
                    "beta1 and beta2 must lie in [0, 1)");
  return adam;
}

MaskedAdamArguments maskedAdamArguments(Arguments &arguments) {
  arguments.inputs(9, 10);
  const bool ages = arguments.inputCount() == 10;
  arguments.outputs(ages ? 5 : 4);
  MaskedAdamArguments masked;
  masked.adam = adamArguments(arguments, 5);
  masked.keptForm = arguments.flag("kept_only");
  if (!masked.keptForm)
    masked.mask = maskInput(arguments, 4, masked.adam.places[0].elements);
  masked.ramp = arguments.number("ramp");
  if (ages) {
    masked.age = arguments.input(9);
    arguments.elements(masked.age, masked.adam.places[0].elements, "age");
    arguments.require(arguments.output(4).data == masked.age.data, "age is updated in place");
  }
  arguments.require(masked.ramp >= 0 && (ages || masked.ramp == 0),
                    "ramp must not be negative and needs ages");
  return masked;
}

} // namespace sluice

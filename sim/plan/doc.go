// Package plan works out how many GPUs a load needs, what they cost, and which
// resource is the bottleneck, in milliseconds and without running anything.
//
// All arithmetic stands in one file, sheet.txt: a spreadsheet in which each
// [Cell] has a name, a unit, a formula and a sentence. The command line, the
// JSON, the page in the browser and the explanation that a user asks for are
// read from that file, so a formula exists once and is shown as it is computed.
// The page receives the parsed formulas as data ([Page]) and evaluates the same
// trees.
//
//   - [Settings] are what a user says: names with values, such as kv=fp8 or
//     dau=10M. A model, a device and a number type are names of the [Catalog]
//     and stand for several cells at once. Any other name is a cell, and setting
//     it replaces its formula.
//   - A [Planner] turns settings into a [Result]: the value of each cell, the limits in
//     the order in which they bind, and a sentence that names the bottleneck.
//   - [Result.Why] shows the formula of a cell with the values it was computed from.
//
// The package is pure: it reads no file and no clock. Profiles of users, shapes
// of model files and measurements of this machine come in as a [Catalog].
package plan

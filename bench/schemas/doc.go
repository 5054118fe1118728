// Package schemas measures the promise of structured output on schemas of the world: how
// many are accepted in strict mode, how long one takes to compile, and whether every answer
// under an accepted one satisfies it, by the word of a validator that shares nothing with
// the engine.
//
// Nothing of the schemas is part of Parley: a folder with a copy of jsonschemabench or of
// the JSON-Schema-Test-Suite is named when the measurement is run.
package schemas

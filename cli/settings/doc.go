// Package settings has the settings of `parley serve` and `parley worker`: one list of
// settings, each with its flag, variable and key in the configuration file. Gather
// merges the sources and checks every value; secrets come from files and are in no
// error.
package settings

// Package store keeps the folder of models: what is in it, under which names, and how
// a model gets into it.
//
// Each model is a directory with its files and a manifest.json. Files that people put
// into the folder themselves are models, too: NAME.gguf, or a directory NAME with a
// config.json. Downloads grow under .partial, in a directory for each source, and move
// to their place by one rename, so that a model in the folder is always complete.
// Removing is a rename, too, before files are deleted. So servers and commands in other
// processes see a model whole or not at all, and need no lock; a server that has mapped
// the files of a removed model keeps them until it lets go.
package store

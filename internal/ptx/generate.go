package ptx

//go:generate ./generate.sh

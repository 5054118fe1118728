// Package llamacpp compares Parley with llama.cpp on this machine: the same model
// file, the same number of threads, in turns.
//
// # What is compared
//
// [Table] lists the checks, each with its bar. Some run the bare network: a
// prompt of 512 tokens from an empty context, and 128 tokens one at a time, as
// llama-bench defines them. The others run both servers and send them the same
// requests. What is compared with llama.cpp is "times": how many times as good
// Parley was in a round, so that more is always better. What is judged by itself
// (memory, time to start) has llama.cpp's number beside it.
//
// Models are random ones of real shapes: they take the time of trained ones.
// Guessing ahead is turned off in Parley's server, because a random model repeats
// itself, and guesses would be right more often than with a real one.
//
// # How it is compared
//
// A round measures both sides one after the other, and the next round the other
// way round, so that a machine that slows down meets both alike. Every bare
// measurement is a process of its own, and the servers of a served check run side
// by side and are never busy together. The result is the median over the rounds
// with its interval (see package stat). A check is missed only if the whole
// interval lies on the wrong side of the bar.
//
// # How the package is laid out
//
// table.go, verdict.go, text.go and plot.go only compute. network.go measures our
// own network, llama.go reads what llama-bench prints, server.go starts servers,
// and served.go says what is asked of them. trials.go holds the experiments, and
// rounds.go goes through the table.
package llamacpp

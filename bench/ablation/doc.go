// Package ablation measures what each mechanism of the engine is worth on the
// machine at hand: the engine with the mechanism off and with it on, side by
// side in one run, beside what its inventors published.
//
// # What is measured
//
// [Table] lists the mechanisms, each with the metric it should better, the floor
// it must reach, and the published claim with its source. The claims come from
// other models on other machines; they say which way and how far a mechanism
// went elsewhere, and are not what is judged.
//
// Off means that the same engine runs without the mechanism (see
// [parley/engine/sched.Baseline]), not that another program runs. Requests go to
// the engine through [parley.Worker], as the gateway sends them; no network is
// in the way.
//
// # How it is measured
//
// Each mechanism runs in rounds. A round measures both sides one after the
// other, and the order changes from round to round, so that a machine that gets
// slower or busier meets both sides alike. What counts is the gain of each
// round: the better side's number over the other's. The result is the median of
// the gains, with the interval in which the true median lies: it comes from
// order statistics alone and supposes nothing about how the noise is
// distributed. With few rounds it cannot be as sure as one might wish; then it
// spans all rounds, and says how sure it is.
//
// # How the package is laid out
//
// table.go, statistics.go, verdict.go, azure.go and text.go only compute. lab.go starts
// engines, drive.go sends requests and notes when tokens come; the files named
// run_*.go hold one experiment each.
package ablation

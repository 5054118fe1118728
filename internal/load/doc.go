// Package load measures OpenAI servers under load: any server, over HTTP, as
// its users meet it.
//
// A [Client] sends the requests of package sim/traffic as streaming chat or
// plain completions and makes a [Record] of each. [Run] decides when: in a
// closed loop each user waits for an answer, thinks and asks again; in an open
// loop requests go out on schedule, whatever the server does, and latency
// counts from the intended start. So a server that stalls cannot hide it by
// keeping requests from being sent, which is called coordinated omission.
// [Summarize] turns the records into a [Report], and [Compare] sets two
// reports side by side.
//
// Latency of answers that came is only half of the truth: a server that turns
// users away is fast for the others. So rejections and failures stand in every
// report, and goodput counts them against the server.
//
// # What is measured
//
//   - TTFT, time to first token: from the intended start to the first text.
//   - TPOT, time per output token: from the first text to the last, over the
//     tokens after the first. Not known of answers of one token.
//   - Gap: the longest time between two pieces of text of one answer.
//   - Total: from the intended start to the end of the stream.
//   - Late: how long after the intended start the request was really sent. If
//     it is not far below the other times, this program was the bottleneck.
//
// Percentiles are exact, by nearest rank over all completed requests. Token
// counts are the server's own; where it sends no usage, pieces of text are
// counted instead, and the report says for how many requests. Throughput
// counts completed requests alone, over the time from the start to the last
// end. Goodput counts those of them that met the objectives ([parley.SLO]).
//
// # The JSON document
//
// A report is one object. Times are milliseconds, rates are per second. New
// members may be added; "schema" changes if one changes its meaning.
//
//	schema        "parley-bench/1"
//	program       version of the program that measured
//	started       start of the measured part, RFC 3339
//	elapsed_ms    from there to the last end
//	interrupted   true if the user ended the run early
//	target        url, model, send (chat, text or ids)
//	load          what was asked: loop, users, rate, workload, lengths, seed, trace...
//	requests      sent, completed, rejected, failed, unfinished, dropped;
//	              kinds: how many of which failure, such as "http 503"
//	tokens        prompt, cached, output, wanted_output; counted_requests have
//	              their output counted by pieces for want of usage
//	throughput    requests, output_tokens, total_tokens, each per second
//	latency       ttft_ms, tpot_ms, gap_ms, total_ms, late_ms, each with n,
//	              mean, p50, p90, p95, p99, p999, max
//	slo           ttft_ms, tpot_ms: the objectives; met: requests within both;
//	              share: met over all sent; goodput: met per second
//	samples       one object for each request: intended_ms since the start,
//	              late_ms, ttft_ms, tpot_ms, gap_ms, total_ms, prompt_tokens,
//	              cached_tokens, output_tokens, wanted_tokens, pieces, counted,
//	              outcome, kind, message
package load

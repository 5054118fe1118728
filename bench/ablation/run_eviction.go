package ablation

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/sim/traffic"
)

// evictionPool is the size of the cache, in tokens: tight, as it must be for
// anything to be evicted. A million is a tenth of what the recorded
// conversations would need to find nearly all there is to find.
const evictionPool = 1_000_000

// talkRequests is how many requests of conversations are made up if there is no
// trace.
const talkRequests = 12_000

// talks are made up after the recorded conversations of Mooncake: one system
// prompt for all, long questions, short answers, and of the conversations most
// end with the first answer while some continue for long.
var talks = traffic.Workload{
	Kind:         traffic.Conversation,
	Seed:         1,
	SharedTokens: traffic.MooncakeBlockTokens,
	Prompt:       traffic.LogNormal(8000, 1.4, 100_000),
	Output:       traffic.LogNormal(343, 0.8, 2000),
	Turns:        traffic.LogNormal(1.6, 1.5, 40),
	Open:         400,
}

// talkGaps are the times between their requests.
var talkGaps = traffic.Gaps{Mean: 294 * time.Millisecond, CV: 1}

// runEviction compares how many prompt tokens a tight cache finds when it evicts
// what was used least recently, and when it evicts as it learned. Nothing is
// computed: the cache decides, as it does in the engine. A round is a part of
// the trace.
func runEviction(ctx context.Context, l *lab, rounds int) (Sample, error) {
	rows, from := l.Trace, "the trace"
	if rows == nil {
		rows, from = rowsOf(traffic.Stamp(traffic.Take(talks.Stream(0, 1), talkRequests),
			talkGaps.From(1))), "conversations made up"
	}
	var s Sample
	var err error
	if s.Off, err = found(ctx, rows, kv.LRU, rounds); err != nil {
		return s, err
	}
	l.step(rounds)
	s.On, err = found(ctx, rows, kv.Learned, rounds)
	l.step(rounds)
	s.Note = fmt.Sprintf("%d requests of %s, a cache of %d tokens", len(rows), from, evictionPool)
	return s, err
}

// found sends a trace through a cache, one request after the other, and returns
// for each part of it how many of a hundred prompt tokens were found.
func found(ctx context.Context, rows []traffic.Row, policy kv.Policy, parts int) ([]float64, error) {
	const size = traffic.MooncakeBlockTokens
	cache, err := kv.NewCache(kv.Config{Blocks: evictionPool / size, BlockTokens: size, Policy: policy})
	if err != nil {
		return nil, err
	}
	if len(rows) < parts {
		return nil, fmt.Errorf("%d requests are too few to tell anything", len(rows))
	}
	var out []float64
	for part := range parts {
		before := cache.Stats()
		for _, row := range rows[part*len(rows)/parts : (part+1)*len(rows)/parts] {
			if err := passThrough(cache, &row); err != nil {
				return nil, err
			}
		}
		after := cache.Stats()
		out = append(out, 100*float64(after.HitTokens-before.HitTokens)/float64(after.AskedTokens-before.AskedTokens))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return out, nil
}

// passThrough lets one prompt be admitted, computed and released. Of one that is
// larger than the cache only the beginning counts.
func passThrough(cache *kv.Cache, row *traffic.Row) error {
	ids := row.Blocks[:min(len(row.Blocks), cache.Config().Blocks)]
	tokens, now := len(ids)*traffic.MooncakeBlockTokens, time.Unix(0, 0).Add(row.At)
	claim := kv.Claim{PromptTokens: tokens + 1}
	for _, id := range ids {
		claim.Hashes = append(claim.Hashes, named(id))
	}
	var table kv.Table
	if _, ok := cache.Admit(&table, &claim, tokens, now); !ok {
		return fmt.Errorf("an idle cache refused a prompt of %d tokens", tokens)
	}
	for table.Sealed() < len(ids) {
		if err := cache.Seal(&table, claim.Hashes[table.Sealed()], nil); err != nil {
			return err
		}
	}
	cache.Release(&table, now)
	return nil
}

// named makes a block's name from its number in a trace.
func named(id uint64) (h parley.BlockHash) {
	mixed := (id + 1) * 0x9e3779b97f4a7c15
	binary.LittleEndian.PutUint64(h[:], mixed^mixed>>29)
	binary.LittleEndian.PutUint64(h[8:], id)
	return h
}

// rowsOf writes requests as a trace does: each full block of a prompt gets a
// number that all it holds, and all before it, decides.
func rowsOf(requests iter.Seq[traffic.Request]) (rows []traffic.Row) {
	for r := range requests {
		row := traffic.Row{At: r.At, InputTokens: r.PromptTokens(), OutputTokens: r.OutputTokens}
		name, room := fnv.New64a(), traffic.MooncakeBlockTokens
		for _, p := range r.Prompt {
			for from := 0; from < p.Tokens; {
				n := min(room, p.Tokens-from)
				from, room = from+n, room-n
				binary.Write(name, binary.LittleEndian, [2]uint64{p.Key, uint64(from)})
				if room == 0 {
					row.Blocks, room = append(row.Blocks, name.Sum64()), traffic.MooncakeBlockTokens
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

package traffic

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
)

const (
	mooncakeSample = `{"timestamp": 0, "input_length": 1300, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 1030, "output_length": 490, "hash_ids": [0, 1, 3]}

{"timestamp": 3000, "input_length": 600, "output_length": 0, "hash_ids": [0, 9]}
`
	azureSample = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 " +
		"18:15:50.9951690,396,109\r\n"
)

func linesOf(text []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line := range bytes.Lines(text) {
			if !yield(line, nil) {
				return
			}
		}
	}
}

func mustRead(t *testing.T, format Format, text []byte) []Row {
	t.Helper()
	rows, err := ReadTrace(format, linesOf(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func shared(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(testkit.SharedData(t, "traces", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := bufio.NewReader(plain).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func TestReadMooncakeSample(t *testing.T) {
	rows := mustRead(t, Mooncake, []byte(mooncakeSample))
	if len(rows) != 3 || rows[1].At != 3*time.Second || rows[1].InputTokens != 1030 || rows[1].OutputTokens != 490 ||
		!slices.Equal(rows[1].Blocks, []uint64{0, 1, 3}) {
		t.Errorf("%+v", rows)
	}
	if rows, _ := ReadTrace(Mooncake, linesOf([]byte(mooncakeSample)), 2); len(rows) != 2 {
		t.Errorf("a limit of 2 gave %d rows", len(rows))
	}
}

func TestReadAzureSample(t *testing.T) {
	rows := mustRead(t, Azure, []byte(azureSample))
	if len(rows) != 2 || rows[0].At != 0 || rows[1].At != 4314579*time.Microsecond || rows[1].InputTokens != 396 ||
		rows[1].OutputTokens != 109 {
		t.Errorf("%+v", rows)
	}
	zoned := mustRead(t, Azure, []byte(
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01.5+00:00,2,3\n2024-05-10 00:00:00.5+00:00,1,3\n"))
	if len(zoned) != 2 || zoned[0].InputTokens != 1 || zoned[1].At != time.Second {
		t.Errorf("%+v", zoned)
	}
}

func TestTraceErrorsNameTheLine(t *testing.T) {
	for _, bad := range []struct {
		format     Format
		text, want string
	}{
		{Mooncake, `{"timestamp": 0, "input_length": 5, "output_length": 5}` + "\n{", "line 2"},
		{Mooncake, `{"timestamp": 0, "output_length": 5}`, "missing"},
		{Mooncake, `{"timestamp": -1, "input_length": 5, "output_length": 5}`, "timestamp -1"},
		{Mooncake, `{"timestamp": 0, "input_length": 0, "output_length": 5}`, "input tokens"},
		{Mooncake, `{"timestamp": 0, "input_length": 5, "output_length": 99999999}`, "99999999 output tokens"},
		{Mooncake, `{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [9223372036854775808]}`,
			"hash id"},
		{Mooncake, "", "no rows"},
		{Azure, "2023-11-16 18:15:46.6805900,374,44", "header"},
		{Azure, azureSample + "2023-11-16,1,2", "line 4"},
		{Azure, azureSample + "1023-11-16 18:15:46,1,2", "years away"},
		{Azure, azureSample + "2023-11-16 18:15:46,1", "2 fields"},
		{Azure, azureSample + "2023-11-16 18:15:46,1,x", "token count"},
		{"parquet", "", "trace format"},
	} {
		_, err := ReadTrace(bad.format, linesOf([]byte(bad.text)), 0)
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q gave %v, want %q", bad.text, err, bad.want)
		}
	}
	broken := errors.New("broken")
	_, err := ReadTrace(Mooncake, func(yield func([]byte, error) bool) { yield(nil, broken) }, 0)
	if !errors.Is(err, broken) {
		t.Errorf("a broken reader gave %v", err)
	}
}

// quantile interpolates between the two nearest values, as the published
// statistics of the traces do.
func quantile(sorted []int, p float64) float64 {
	at := p * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return float64(sorted[low]) + (at-float64(low))*float64(sorted[high]-sorted[low])
}

func TestSharedTracesHaveTheirStatistics(t *testing.T) {
	type stats struct{ mean, p50, p95, p99, max float64 }
	for _, want := range []struct {
		format        Format
		name          string
		rows, seconds int
		input, output stats
	}{
		{Mooncake, "conversation_trace.jsonl.gz", 12031, 3537, stats{12035, 6909, 39550, 85400, 126195},
			stats{343, 350, 698, 1118, 2000}},
		{Azure, "AzureLLMInferenceTrace_conv.csv.gz", 19366, 3502, stats{1155, 1020, 4083, 4142, 14050},
			stats{211, 129, 451, 601, 1000}},
	} {
		rows := mustRead(t, want.format, shared(t, want.name))
		name := want.name
		check := func(what string, want stats, of func(Row) int) {
			var values []int
			sum := 0.0
			for _, r := range rows {
				values = append(values, of(r))
				sum += float64(of(r))
			}
			slices.Sort(values)
			got := stats{math.Round(sum / float64(len(rows))), quantile(values, 0.5), quantile(values, 0.95),
				quantile(values, 0.99), float64(values[len(values)-1])}
			// The published numbers are rounded.
			if got.mean != want.mean || got.p50 != want.p50 || math.Abs(got.p95-want.p95) > 1 ||
				math.Abs(got.p99-want.p99) > 1 || got.max != want.max {
				t.Errorf("%s %s: %+v, want %+v", name, what, got, want)
			}
		}
		check("input", want.input, func(r Row) int { return r.InputTokens })
		check("output", want.output, func(r Row) int { return r.OutputTokens })
		if span := int(math.Round(rows[len(rows)-1].At.Seconds())); len(rows) != want.rows || span != want.seconds {
			t.Errorf("%s: %d rows over %d s, want %d over %d", want.name, len(rows), span, want.rows, want.seconds)
		}
	}
}

// The rebuilt prompts have the prefix-cache hits that are known of this trace:
// 105,710 of its 288,500 blocks, with room for all of them.
func TestReplayRebuildsTheSharing(t *testing.T) {
	rows := mustRead(t, Mooncake, shared(t, "conversation_trace.jsonl.gz"))
	replay := Replay{Scale: 0.02}
	seen := map[parley.BlockHash]bool{}
	hits, blocks := 0, 0
	for r := range replay.Requests(rows) {
		hit := true
		var parent parley.BlockHash
		for chunk := range slices.Chunk(testContent.Tokens(r.Prompt), replay.BlockTokens()) {
			parent = parley.HashBlock(parent, parley.Salt{}, chunk)
			hit = hit && seen[parent]
			seen[parent] = true
			blocks++
			if hit {
				hits++
			}
		}
	}
	if hits != 105_710 || blocks != 288_500 {
		t.Errorf("%d of %d blocks hit, want 105710 of 288500", hits, blocks)
	}
}

func TestBurstGPT(t *testing.T) {
	text := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
		"5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,230,1317,API log\n"
	rows, err := ReadTrace(BurstGPT, linesOf([]byte(text)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[1].At != 40500*time.Millisecond || rows[1].InputTokens != 1087 ||
		rows[1].OutputTokens != 230 {
		t.Errorf("the rows are %+v", rows)
	}
	for _, bad := range []string{"a,b,c\n", text + "1,2\n", text + "x,ChatGPT,1,1,2,l\n",
		text + "1,ChatGPT,1,y,2,l\n"} {
		if _, err := ReadTrace(BurstGPT, linesOf([]byte(bad)), 0); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

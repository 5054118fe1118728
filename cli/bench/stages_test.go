package bench

import (
	"strings"
	"testing"
	"time"

	"parley/internal/load"
)

func TestStagesBesideTheirBudget(t *testing.T) {
	before := parseStages([]byte(`parley_stage_seconds_bucket{stage="auth",le="0.001"} 5
parley_stage_seconds_bucket{stage="auth",le="0.002"} 5
parley_stage_seconds_bucket{stage="auth",le="+Inf"} 5
parley_stage_seconds_sum{stage="auth"} 0.001
parley_stage_seconds_count{stage="auth"} 5
parley_stage_seconds_count{stage="queue"} 5
other{stage="auth"} 1
`))
	after := parseStages([]byte(`parley_stage_seconds_bucket{stage="auth",le="0.001"} 15
parley_stage_seconds_bucket{stage="auth",le="0.002"} 25
parley_stage_seconds_bucket{stage="auth",le="+Inf"} 25
parley_stage_seconds_sum{stage="auth"} 0.021
parley_stage_seconds_count{stage="auth"} 25
parley_stage_seconds_count{stage="queue"} 5
`))
	got := stagesSince(before, after)
	if len(got) != 1 || got[0] != (load.StageTime{Name: "auth", Mean: load.Millis(time.Millisecond), P50: load.Millis(
		time.Millisecond), P95: load.Millis(1900 * time.Microsecond), Budget: load.Millis(3 * time.Millisecond)}) {
		t.Errorf("%+v", got)
	}
	var text strings.Builder
	printStages(&text, got)
	if !strings.Contains(text.String(), "auth  1.00  1.00  1.90        3.00") {
		t.Errorf("%s", &text)
	}
	if stagesSince(nil, after) != nil || parseStages([]byte("parley_stage_seconds_bucket{stage=")) == nil {
		t.Error("what cannot be read is no stage")
	}
}

package llamacpp

import (
	"errors"
	"fmt"

	"parley/internal/chart"
)

// Plot draws the checks that compare with llama.cpp.
func (r *Report) Plot() (*chart.Plot, error) {
	p := &chart.Plot{Title: "Parley and llama.cpp on the same processor and the same files",
		Axis: "times as good as llama.cpp (more is better); the stroke is the bar"}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Rule != Times {
			continue
		}
		p.Rows = append(p.Rows, chart.Row{
			Label: x.Name,
			Note:  fmt.Sprintf("%.4g and %.4g %s", x.OurMedian, x.TheirMedian, x.Unit),
			Value: x.Score,
			Low:   x.Interval.Low,
			High:  x.Interval.High,
			Goal:  x.Bar,
			Good:  x.Verdict == Met,
			Bad:   x.Verdict == Missed,
		})
	}
	if len(p.Rows) == 0 {
		return nil, errors.New("the report compares nothing with llama.cpp")
	}
	return p, nil
}

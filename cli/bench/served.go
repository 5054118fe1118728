package bench

import (
	"fmt"
	"os"
	"strings"

	"parley/sim/cost"
)

// servedPasses reads the passes in the logs of workers, of which some may have computed nothing.
func servedPasses(paths []string) (samples []cost.Sample, err error) {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		samples = append(samples, cost.ReadLog(text)...)
	}
	if len(paths) > 0 && len(samples) == 0 {
		return nil, fmt.Errorf("%s: no pass is in them: start the workers with --log-level debug --log-format json",
			strings.Join(paths, ", "))
	}
	return samples, nil
}

// outside returns how many seconds the requests of reports took besides waiting and passes, 0 without reports.
func outside(paths []string) (float64, error) {
	var sum, requests float64
	for _, path := range paths {
		r, err := OpenReport(path)
		if err != nil {
			return 0, err
		}
		took, known := r.Outside()
		if !known || r.Requests.Completed == 0 {
			return 0, fmt.Errorf("%s: it does not say how long requests waited and prompts took: the server must be a "+
				"parley whose metrics are read", path)
		}
		sum += took.Seconds() * float64(r.Requests.Completed)
		requests += float64(r.Requests.Completed)
	}
	if requests == 0 {
		return 0, nil
	}
	return sum / requests, nil
}

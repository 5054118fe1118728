package bench

import (
	"fmt"
	"os"

	"parley/sim/cost"
)

// servedPasses reads the passes in the logs of workers.
func servedPasses(paths []string) (samples []cost.Sample, err error) {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found := cost.ReadLog(text)
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no pass is in it: start the worker with "+
				"--log-level debug --log-format json", path)
		}
		samples = append(samples, found...)
	}
	return samples, nil
}

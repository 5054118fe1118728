package bench

import (
	"fmt"
	"os"

	"parley/sim/cost"
)

// servedPasses reads the passes in the logs of workers.
func servedPasses(paths []string) (samples []cost.Sample, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		found, err := cost.ReadLog(file)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no pass is in it: start the worker with --log-level debug --log-format json")
		}
		if file.Close(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		samples = append(samples, found...)
	}
	return samples, nil
}

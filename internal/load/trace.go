package load

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"parley/sim/traffic"
)

// lineBytesMax bounds a line of a trace. The longest prompts have some
// hundred thousand block hashes of ten digits.
const lineBytesMax = 4 << 20

// OpenTrace reads at most limit rows (0 means all) of the trace in a file,
// which may be compressed by gzip. An empty format is told by the name.
func OpenTrace(path string, format traffic.Format, limit int) (rows []traffic.Row, err error) {
	if format == "" {
		format = traffic.Mooncake
		if strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".csv") {
			format = traffic.Azure
		}
	}
	err = openLines(path, func(lines iter.Seq2[[]byte, error]) (err error) {
		rows, err = traffic.ReadTrace(format, lines, limit)
		return err
	})
	return rows, err
}

// OpenRates reads the rates in a file, which may be compressed by gzip; see [traffic.ReadRates].
func OpenRates(path string) (rate traffic.Rate, err error) {
	err = openLines(path, func(lines iter.Seq2[[]byte, error]) (err error) {
		rate, err = traffic.ReadRates(lines)
		return err
	})
	return rate, err
}

// openLines lets the lines of a file be read; errors name the file.
func openLines(path string, read func(lines iter.Seq2[[]byte, error]) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := uncompressed(f)
	if err == nil {
		err = read(lines(plain))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// uncompressed returns r, without the compression that its first bytes tell of.
func uncompressed(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" { // a shorter file has no magic
		return buffered, nil
	}
	return gzip.NewReader(buffered)
}

// lines yields the lines of r.
func lines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		scan := bufio.NewScanner(r)
		scan.Buffer(nil, lineBytesMax)
		for scan.Scan() {
			if !yield(scan.Bytes(), nil) {
				return
			}
		}
		err := scan.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("more than %d bytes in one line", lineBytesMax)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

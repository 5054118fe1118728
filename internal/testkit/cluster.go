package testkit

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Cluster starts a PostgreSQL that belongs to the test alone, so that it may be
// stopped and started again while other tests use theirs. It returns the address
// of an empty database in it, and a program that passes its arguments to pg_ctl.
// Where the tests run without PostgreSQL, the test is skipped.
func Cluster(t testing.TB) (address, ctl string) {
	t.Helper()
	const variable = "PARLEY_TEST_POSTGRES"
	if os.Getenv(variable) == "" {
		t.Skipf("%s is not set: restarts of PostgreSQL are NOT tested; run test/postgres.sh go test …", variable)
	}
	command := exec.Command(filepath.Join(Root(), "test", "postgres.sh"), "sh", "-c",
		`echo "$PARLEY_TEST_POSTGRES"; echo "$PARLEY_TEST_POSTGRES_CTL"; cat`)
	command.Env = append(os.Environ(), variable+"=")
	command.Stderr = os.Stderr
	hold, err := command.StdinPipe() // the cluster lives until this is closed
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(out)
	for _, into := range []*string{&address, &ctl} {
		if *into, err = lines.ReadString('\n'); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		*into = strings.TrimSpace(*into)
	}
	if ctl == "" {
		t.Fatal("no PostgreSQL was started")
	}
	return address, ctl
}

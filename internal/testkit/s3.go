package testkit

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"parley/internal/supervise"
)

// StartS3 starts the S3 server that PARLEY_S3_SERVER names, versitygw, with an empty bucket, and
// returns the URL of the bucket as --kv-store takes it. It ends with the test. Without one the
// test is skipped.
func StartS3(t testing.TB) string {
	t.Helper()
	program := os.Getenv("PARLEY_S3_SERVER")
	if program == "" {
		t.Skip("PARLEY_S3_SERVER does not name an S3 server: run make kv-store")
	}
	dir, meta := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "blocks"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := freeAddress(t)
	log, err := os.Create(filepath.Join(meta, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(program, "--port", at, "--access", "tester", "--secret", "secret/of+a tester",
		"--keep-alive", "--quiet", "posix", "--sidecar", meta, dir)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		_ = log.Close()
	})
	awaitAddress(t, at, log.Name())
	return "s3://tester:secret%2Fof+a%20tester@blocks/some/prefix?endpoint=http://" + at
}

// StartRedisCluster starts two Redis servers that form a cluster, and returns its URL as
// --kv-store takes it. They end with the test. It needs ports of this machine, so it runs only
// where PARLEY_REDIS_CLUSTER is set.
func StartRedisCluster(t testing.TB) string {
	t.Helper()
	if os.Getenv("PARLEY_REDIS_CLUSTER") == "" {
		t.Skip("PARLEY_REDIS_CLUSTER is not set: run make kv-store")
	}
	program := redisProgram()
	if program == "" {
		t.Skip("NOT TESTED: redis-server is not installed; run test/need-redis.sh")
	}
	const slots = 16384
	var nodes []*redis.Client
	var at, bus [2]string
	for i := range at {
		at[i], bus[i] = freeAddress(t), freeAddress(t)
		dir := t.TempDir()
		server := exec.Command(program, "--port", portOf(at[i]), "--bind", "127.0.0.1", "--cluster-enabled", "yes",
			"--cluster-port", portOf(bus[i]), "--save", "", "--appendonly", "no", "--dir", dir, "--logfile", "log")
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		})
		awaitAddress(t, at[i], filepath.Join(dir, "log"))
		node := redis.NewClient(&redis.Options{Addr: at[i]})
		t.Cleanup(func() { _ = node.Close() })
		if err := node.ClusterAddSlotsRange(t.Context(), i*slots/2, (i+1)*slots/2-1).Err(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, node)
	}
	meet := nodes[0].Do(t.Context(), "cluster", "meet", "127.0.0.1", portOf(at[1]), portOf(bus[1]))
	if err := meet.Err(); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		for tries := 0; ; tries++ {
			info, err := node.ClusterInfo(t.Context()).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:2") {
				break
			}
			if tries == 6000 {
				t.Fatalf("the servers form no cluster: %v %s", err, info)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return "redis-cluster://" + at[0] + "?addr=" + at[1]
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	at, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// awaitAddress returns when a server answers at an address.
func awaitAddress(t testing.TB, at, log string) {
	t.Helper()
	for range 3000 {
		if c, err := net.Dial("tcp", at); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	said, _ := os.ReadFile(log)
	t.Fatalf("nothing answers at %s:\n%s", at, said)
}

package gatewaycost

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const nginxConfig = `daemon off;
worker_processes auto;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 20000; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/f;
	uwsgi_temp_path %[1]s/u;
	scgi_temp_path %[1]s/s;
	keepalive_requests 1000000;
	upstream up { server %[2]s; keepalive 256; }
	server {
		listen %[3]s;
		location / {
			proxy_pass http://up;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_read_timeout 600s;
		}
	}
}
`

// StartNginx starts an nginx that passes everything on to upstream, in a
// directory of its own.
func StartNginx(ctx context.Context, processes *Processes, program, dir, upstream string) (Target, error) {
	address, err := freeAddress()
	if err != nil {
		return Target{}, err
	}
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, dir, strings.TrimPrefix(upstream, "http://"), address)
	if os.Geteuid() == 0 {
		text = "user root;\n" + text
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return Target{}, err
	}
	cmd := processes.Command(program, "-c", file, "-p", dir)
	if err := processes.Start(cmd, func(error) {}); err != nil {
		return Target{}, err
	}
	return Target{Name: "nginx", URL: "http://" + address, PID: cmd.Process.Pid}, reachable(ctx, address)
}

// freeAddress is an address of this machine without a listener.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// reachable waits until a server listens.
func reachable(ctx context.Context, address string) error {
	for range 500 {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("no server listens on %s", address)
}

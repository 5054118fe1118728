package remote

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"parley/cli"
	"parley/internal/local"
)

// A server without keys makes a token when it starts. It gives access to stored data
// and the operation of the server: the person who started it, who sees it in a link, and
// commands of the same user of the system, who read it from a file that no other user
// can read.

// NewLocalToken makes a token of 130 random bits.
func NewLocalToken() string { return "local-" + rand.Text() }

// TokenDirs are where token files are looked for, the best place first. The place does
// not depend on --data, so that a command finds the token of any server of its user.
func TokenDirs() (dirs []string) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "parley"))
	}
	return append(dirs, filepath.Join(cli.DataDir(), "run"))
}

// TokenName names the file with the token of the server at an address, which is that of
// one server at a time.
func TokenName(host, port string) string {
	return strings.NewReplacer(":", "_", "%", "_").Replace(host) + "_" + port + ".token"
}

// KeepToken writes the token of the server at an address into a file that only this
// user can read. The caller must call remove when the server ends.
func KeepToken(addr net.Addr, token string) (file string, remove func(), err error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "", nil, err
	}
	var problems []error
	for _, dir := range TokenDirs() {
		file = filepath.Join(dir, TokenName(host, port))
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = cli.WritePrivate(file, func(w io.Writer) error { _, err := fmt.Fprintln(w, token); return err })
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		return file, func() { removeToken(file, token) }, nil
	}
	return "", nil, fmt.Errorf("cannot store the local token, so commands of this user cannot read it: %w",
		errors.Join(problems...))
}

// removeToken removes a file unless another server has written its own token there.
func removeToken(file, token string) {
	if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == token {
		_ = os.Remove(file) // a token that stays is worth nothing without its server
	}
}

// LocalTokenOf returns the token of the server at an address of this machine, as its
// file has it; empty if there is none.
func LocalTokenOf(root string) string {
	u, err := url.Parse(root)
	if err != nil || !local.IsName(u.Host) {
		return ""
	}
	port, hosts := u.Port(), []string{u.Hostname()}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if !local.IsLoopback(u.Host) {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, dir := range TokenDirs() {
		for _, host := range hosts {
			if text, err := os.ReadFile(filepath.Join(dir, TokenName(host, port))); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}

// PageLink is the address of a page, with the token of a server without keys.
func PageLink(root, path string) string {
	if token := LocalTokenOf(root); token != "" {
		return root + path + "?token=" + token
	}
	return root + path
}

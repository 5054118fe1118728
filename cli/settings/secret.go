package settings

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// withSecretFiles adds to each secret setting one that reads its value from a file: an
// argument of a process can be seen by every user of the machine.
func withSecretFiles(list []Setting) (out []Setting) {
	for _, s := range list {
		out = append(out, s)
		if s.secret {
			out = append(out, Setting{
				Key:   cmp.Or(s.secretFile, s.Key+"-file"),
				wants: "the path of a file with " + s.wants,
				Help:  "read --" + s.Key + " from this `FILE`",
				from:  &s,
				set:   func(to *Settings, path string) error { return s.readSecret(to, path) },
			})
		}
	}
	return out
}

// secretBytesMax bounds the file of a secret.
const secretBytesMax = 64 << 10

// readSecret sets a secret to what a file holds, without the line's end.
func (s *Setting) readSecret(to *Settings, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, secretBytesMax+1))
	if err != nil {
		return err
	}
	if len(text) > secretBytesMax {
		return fmt.Errorf("%s has more than %d bytes: it does not contain %s", path, secretBytesMax, s.wants)
	}
	if s.set(to, strings.TrimRight(string(text), "\r\n")) != nil {
		return fmt.Errorf("%s does not contain %s", path, s.wants)
	}
	return nil
}

// hasPassword reports whether a URL has a password in it.
func hasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

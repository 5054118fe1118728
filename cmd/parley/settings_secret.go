package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
)

// secretMin is the length from which on a secret cannot be guessed.
const secretMin = 16

// setSecret reads a secret that is not too short.
func setSecret(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error {
		if len(text) < secretMin {
			return errBadValue
		}
		*field(s) = text
		return nil
	}
}

// withSecretFiles adds to each secret setting one that reads its value from a file: an
// argument of a process can be seen by every user of the machine.
func withSecretFiles(list []setting) (out []setting) {
	for _, s := range list {
		out = append(out, s)
		if s.secret {
			out = append(out, setting{
				key:   cmp.Or(s.secretFile, s.key+"-file"),
				wants: "the path of a file with " + s.wants,
				help:  "read --" + s.key + " from this `FILE`",
				from:  &s,
				set:   func(to *settings, path string) error { return s.readSecret(to, path) },
			})
		}
	}
	return out
}

// secretBytesMax bounds the file of a secret.
const secretBytesMax = 64 << 10

// readSecret sets a secret to what a file holds, without the line's end.
func (s *setting) readSecret(to *settings, path string) error {
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

// checkGivenOnce says which secrets were given both as they are and as a file.
func checkGivenOnce(given map[string]bool) (problems []error) {
	for i := range everySetting {
		if s := &everySetting[i]; s.from != nil && given[s.key] && given[s.from.key] {
			problems = append(problems, fmt.Errorf("--%s and --%s are both set: use one", s.from.key, s.key))
		}
	}
	return problems
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

// holdsSecret reports whether the value of a setting must not be read by others.
func (s *setting) holdsSecret(text string) bool {
	if s.holds != nil {
		return s.holds(text)
	}
	return s.secret && text != ""
}

// checkReadable refuses a configuration file that holds secrets and that every user of
// the machine can read or change, and warns of one that a group can.
func checkReadable(path string, values map[string][]string) (warning string, err error) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || !info.Mode().IsRegular() {
		return "", err
	}
	var secrets []string
	for i := range everySetting {
		if s := &everySetting[i]; slices.ContainsFunc(values[s.key], s.holdsSecret) {
			secrets = append(secrets, s.fileKey())
		}
	}
	mode := info.Mode().Perm()
	switch names := strings.Join(secrets, ", "); {
	case len(secrets) == 0:
		return "", nil
	case mode&0o007 != 0:
		return "",
			fmt.Errorf(
				"%s contains secrets (%s), and every user of this machine can read or change it (mode %04o): "+
					"run\n\n  chmod 600 %s\n\nor move each secret into its own file and use an option such as "+
					"--worker-key-file", path, names, mode, path)
	case mode&0o070 != 0:
		return fmt.Sprintf(
			"%s contains secrets (%s), and its group can read or change it (mode %04o): to prevent that, run "+
				"chmod 600 %s", path, names, mode, path), nil
	}
	return "", nil
}

// redactArguments removes the values of secret flags from the arguments that this
// program knows of itself, which profiles and crash reports show. What ps shows cannot
// be changed: that is what the files are for.
func redactArguments(args []string) {
	const redacted = "REDACTED"
	for i, arg := range args {
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		at := slices.IndexFunc(everySetting, func(s setting) bool { return s.key == name })
		if !strings.HasPrefix(arg, "--") || at < 0 || !everySetting[at].secret && everySetting[at].holds == nil {
			continue
		}
		if joined {
			args[i] = "--" + name + "=" + redacted
		} else if i+1 < len(args) {
			args[i+1] = redacted
		}
	}
}

package settings

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// checkGivenOnce says which secrets were given both as they are and as a file.
func checkGivenOnce(given map[string]bool) (problems []error) {
	for i := range everySetting {
		if s := &everySetting[i]; s.from != nil && given[s.Key] && given[s.from.Key] {
			problems = append(problems, fmt.Errorf("--%s and --%s are both set: use one", s.from.Key, s.Key))
		}
	}
	return problems
}

// holdsSecret reports whether the value of a setting must not be read by others.
func (s *Setting) holdsSecret(text string) bool {
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
		if s := &everySetting[i]; slices.ContainsFunc(values[s.Key], s.holdsSecret) {
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

// RedactArguments removes the values of secret flags from the arguments that this
// program knows of itself, which profiles and crash reports show. What ps shows cannot
// be changed: that is what the files are for.
func RedactArguments(args []string) {
	const redacted = "REDACTED"
	for i, arg := range args {
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		at := slices.IndexFunc(everySetting, func(s Setting) bool { return s.Key == name })
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

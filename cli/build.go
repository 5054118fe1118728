package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is the release this tree leads up to.
const Version = "0.1.0"

// A Build says which program this is.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild reads what the Go toolchain recorded in the binary.
func ThisBuild() Build {
	b := Build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range recorded.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the line that `parley version` prints.
func (b Build) String() string {
	return fmt.Sprintf("parley %s (%s, %s)%s", b.Version, b.Go, b.Platform, b.CommitText())
}

// CommitText names the commit that the program was built from; empty if it is unknown.
func (b Build) CommitText() string {
	if len(b.Commit) < 12 {
		return ""
	}
	text := " commit " + b.Commit[:12]
	if b.Modified {
		text += " with changes"
	}
	return text
}

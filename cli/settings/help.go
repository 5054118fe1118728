package settings

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// ServeHelp lists the variable and the file's key of each setting of a server.
func ServeHelp() string {
	var list []*Setting
	for i := range List {
		list = append(list, &List[i])
	}
	return help(list)
}

// WorkerHelp lists the variable and the file's key of each setting of a worker.
func WorkerHelp() string { return help(workerList()) }

func help(list []*Setting) string {
	var out strings.Builder
	out.WriteString(
		"Every flag can also be a variable or a key in the --config file; flags take precedence\nover variables, " +
			"variables over the file:\n\n")
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  flag\tvariable\tkey in the file")
	for _, s := range list {
		fmt.Fprintf(w, "  --%s\t%s\t%s\n", s.Key, s.Variable(), s.fileKey())
	}
	w.Flush()
	return strings.TrimRight(out.String(), "\n")
}

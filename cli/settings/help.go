package settings

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Sources explains, in the help of a command, where else a setting can be given.
const Sources = `Every flag can also be a variable or a key in the --config file: --kv-disk is the variable
PARLEY_KV_DISK and the key kv_disk. Flags take precedence over variables, variables over the
file. "parley config" prints a file with every key, its meaning and its default.`

// groups are the headings under which help and the sample file list settings. A name that ends with a dash stands for
// all settings that begin so. A setting belongs to the first group that names it.
var groups = []struct {
	title string
	names []string
}{
	{"Basics", []string{"addr", "model", "config", "data", "device", "context", "keep-alive", "help"}},
	{"Computing", []string{"kv-tokens", "kv-type", "kv-host", "kv-disk", "kv-store", "kv-store-", "seqs",
		"step-tokens", "tpot-target", "background-wait", "speculate", "draft", "weights", "threads", "cpu",
		"numerics"}},
	{"Storage", []string{"store", "store-", "titles", "conversations", "keep-"}},
	{"Access from other machines", []string{"tls-", "allow-origin", "trusted-proxies", "metrics-open", "client-ca",
		"gateway-ca"}},
	{"Sign-in with OpenID Connect", []string{"oidc-"}},
	{"Tiers, limits and costs", []string{"tiers", "tier-weight", "aliases", "prices", "budget-", "redis", "redis-",
		"body-", "sockets-"}},
	{"Overload", []string{"admission", "queue-", "first-token-max", "answer-max", "worker-wait", "shed-", "breaker",
		"slo-", "objectives"}},
	{"Shared answers and caches", []string{"share", "share-", "cache-scope", "public-prompt", "salt-"}},
	{"Workers and other services", []string{"worker", "worker-", "pools", "pool", "role", "register", "advertise",
		"fleet-", "kv-transfer", "kv-warm-up", "hedge-after", "upstreams", "fallbacks", "events", "events-"}},
	{"Safety, logs and telemetry", []string{"safety-policy", "log-", "audit-keep", "otlp-", "drain"}},
}

// groupOf returns the place of a setting's group.
func groupOf(key string) int {
	return slices.IndexFunc(groups, func(g struct {
		title string
		names []string
	}) bool {
		return slices.ContainsFunc(g.names, func(name string) bool {
			return name == key || strings.HasSuffix(name, "-") && strings.HasPrefix(key, name)
		})
	})
}

// GroupFlags lets the help of a command list its flags by what they are about.
func GroupFlags(cmd *cobra.Command) {
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		return printUsage(c.OutOrStderr(), c)
	})
}

// helpColumns is how wide lines of help are.
const helpColumns = 110

func printUsage(w io.Writer, c *cobra.Command) error {
	sets := make([]*pflag.FlagSet, len(groups))
	for i := range sets {
		sets[i] = pflag.NewFlagSet(groups[i].title, pflag.ContinueOnError)
		sets[i].SortFlags = false
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if at := groupOf(f.Name); at >= 0 {
			sets[at].AddFlag(f)
		}
	})
	var out strings.Builder
	fmt.Fprintf(&out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
	for _, set := range sets {
		if set.HasAvailableFlags() {
			fmt.Fprintf(&out, "\n%s:\n%s", set.Name(), set.FlagUsagesWrapped(helpColumns))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// SampleFile is a --config file with every key of a server commented out, its meaning above it.
func SampleFile() string {
	var out strings.Builder
	out.WriteString("# Settings of parley serve. Remove the # before a key to set it; docs/ has the details.\n" +
		"# Better put secrets into separate files: use the keys that end with _file.\n")
	for at := range groups {
		fmt.Fprintf(&out, "\n## %s\n", groups[at].title)
		for i := range List {
			if s := &List[i]; groupOf(s.Key) == at {
				kind, text := pflag.UnquoteUsage(&pflag.Flag{Usage: s.Help, Value: &flagValue{of: s}})
				value := strings.NewReplacer("[", "", "]", "").Replace(kind)
				if s.many {
					value = "[" + value + "]"
				}
				fmt.Fprintf(&out, "\n%s#%s: %s\n", commented(text), s.fileKey(), value)
			}
		}
	}
	return out.String()
}

// commented breaks a text into lines of a comment.
func commented(text string) string {
	var out strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > helpColumns {
			out.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return out.String() + line + "\n"
}

package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/licenses"
	"parley/web"
)

func newLicenses() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of all software in this program",
		Long: `Print the licences of all software in this program: Go, its modules, and the packages
that the web pages are built with.

  parley licenses                        # the texts
  parley licenses --format json          # name, version, licence and text of each
  parley licenses --format cyclonedx     # a software bill of materials (SBOM), CycloneDX 1.6`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printLicenses(cmd.OutOrStdout(), format) },
	}
	cmd.Flags().StringVar(&format, "format", format, "text, json or cyclonedx")
	return cmd
}

func printLicenses(out io.Writer, format string) error {
	parts := linkedSoftware()
	switch format {
	case "text":
		for _, p := range parts {
			fmt.Fprintf(out, "%s %s\n\n%s\n\n%s\n\n", p.Path, p.Version, p.Text, strings.Repeat("-", 79))
		}
		return nil
	case "json":
		return cli.PrintJSON(out, parts)
	case "cyclonedx":
		return cli.PrintJSON(out, billOfMaterials(parts))
	}
	return fmt.Errorf("--format %s: use text, json or cyclonedx", format)
}

// linkedSoftware lists what is in this very binary: the modules that the
// toolchain recorded, Go's library, and the packages of the pages.
func linkedSoftware() []software {
	linked := map[string]bool{"std": true}
	if recorded, ok := debug.ReadBuildInfo(); ok {
		for _, m := range recorded.Deps {
			linked[m.Path] = true
		}
	}
	var parts []software
	for _, m := range licenses.Modules() {
		if linked[m.Path] {
			parts = append(parts, software{Module: m, ecosystem: "golang"})
		}
	}
	return append(parts, pageSoftware(web.Licenses())...)
}

// A software is a part of the program that others made.
type software struct {
	licenses.Module
	// ecosystem is the type in the part's package URL: golang or npm.
	ecosystem string
}

var pageHeading = regexp.MustCompile(`^(\S+) (\d+\.\d+\.\d+\S*)\n`)

// pageSoftware splits the list that the build of the pages writes.
func pageSoftware(list string) (parts []software) {
	for section := range strings.SplitSeq(list, "\n"+strings.Repeat("-", 79)+"\n\n") {
		name := pageHeading.FindStringSubmatch(section)
		if name == nil {
			continue
		}
		text := strings.TrimSpace(section[len(name[0]):])
		license := "MIT"
		if strings.Contains(text, "SIL OPEN FONT LICENSE") {
			license = "OFL-1.1"
		}
		m := licenses.Module{Path: name[1], Version: name[2], License: license, Text: text}
		parts = append(parts, software{Module: m, ecosystem: "npm"})
	}
	return parts
}

// A bom is a CycloneDX document, as far as we fill it.
type bom struct {
	Format       string      `json:"bomFormat"`
	Spec         string      `json:"specVersion"`
	Serial       string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     bomMetadata `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []bomEdges  `json:"dependencies"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string        `json:"type"`
	Ref      string        `json:"bom-ref"`
	Name     string        `json:"name"`
	Version  string        `json:"version,omitempty"`
	PURL     string        `json:"purl,omitempty"`
	Licenses []bomLicenses `json:"licenses,omitempty"`
}

type bomLicenses struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type bomEdges struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// billOfMaterials describes the program. The same binary always gives the same
// bytes: the serial number is made from the parts.
func billOfMaterials(parts []software) *bom {
	this := cli.ThisBuild()
	own := component{Type: "application", Ref: "parley", Name: "parley", Version: cmp.Or(this.Commit, this.Version)}
	own.license("Apache-2.0")
	b := &bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: bomMetadata{Component: own}}
	edges := bomEdges{Ref: own.Ref}
	digest := sha256.New()
	fmt.Fprintln(digest, own.Version, this.Platform)
	for _, p := range parts {
		c := component{Type: "library", Name: p.Path, Version: p.Version}
		if p.Path == "std" {
			c.Version = strings.TrimPrefix(this.Go, "go")
		}
		c.PURL = "pkg:" + p.ecosystem + "/" + strings.Replace(p.Path, "@", "%40", 1) + "@" + c.Version
		c.Ref = c.PURL
		c.license(p.License)
		b.Components = append(b.Components, c)
		edges.DependsOn = append(edges.DependsOn, c.Ref)
		fmt.Fprintln(digest, c.PURL)
	}
	b.Dependencies = []bomEdges{edges}
	id := digest.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: made from content
	b.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return b
}

func (c *component) license(id string) {
	var l bomLicenses
	l.License.ID = id
	c.Licenses = []bomLicenses{l}
}

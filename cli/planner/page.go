package planner

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/web"
)

// writePage writes the plan as one file that needs no server.
func (f *planFlags) writePage(cmd *cobra.Command) error {
	page, err := f.planner.Page(f.settings)
	if err != nil {
		return err
	}
	data, err := json.Marshal(page)
	if err != nil {
		return err
	}
	text := web.PlanPage(data)
	if f.html == "-" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	err = cli.WriteWhole(cmd.Context(), f.html, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s: open it in a browser\n", f.html)
	}
	return err
}

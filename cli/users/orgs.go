package users

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"parley"
	"parley/cli"
	"parley/gateway/tenant"

	"github.com/spf13/cobra"
)

// NewOrgs returns the command `parley orgs`.
func NewOrgs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "orgs",
		Short: "List, add, block and delete organisations",
		Long: `List, add, block and delete the organisations of a server.

An organisation owns what its people and keys store, pays for what they use, and shares
nothing with others. OpenAI's API calls it a project.

Without --url the command works on the server's store, as parley users does.`,
		Example: `  parley orgs list
  parley orgs add acme --tier pro
  parley orgs block acme`,
	}
	o := &options{}
	o.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(newOrgsList(o), newOrgsAdd(o), newOrgsBlock(o, true), newOrgsBlock(o, false), newOrgsDelete(o))
	return cmd
}

func newOrgsList(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the organisations",
		Example: "  parley orgs list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return o.with(ctx, func(s *server) error {
				var page struct {
					Data []tenant.OrganizationDocument `json:"data"`
				}
				err := s.Call(ctx, http.MethodGet, projectsPath, nil, &page)
				return o.showOrgs(cmd, page.Data, err)
			}, func(d *directory) error {
				all, err := d.Organizations(ctx)
				var shown []tenant.OrganizationDocument
				for i := range all {
					shown = append(shown, all[i].Document())
				}
				return o.showOrgs(cmd, shown, err)
			})
		},
	}
}

func (o *options) showOrgs(cmd *cobra.Command, all []tenant.OrganizationDocument, err error) error {
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"schema": "parley-orgs/1", "organisations": all})
	}
	return printOrgs(cmd.OutOrStdout(), all)
}

func printOrgs(out io.Writer, all []tenant.OrganizationDocument) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ORGANISATION\tTIER\tSTATE\tCREATED")
	for i := range all {
		state, created := all[i].Status, "-"
		if state == "archived" {
			state = "blocked"
		}
		if all[i].CreatedAt > 0 {
			created = time.Unix(all[i].CreatedAt, 0).Format(time.DateOnly)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", all[i].ID, all[i].Tier, state, created)
	}
	return w.Flush()
}

func newOrgsAdd(o *options) *cobra.Command {
	var tier string
	cmd := &cobra.Command{
		Use:     "add ORGANISATION",
		Short:   "Add an organisation",
		Example: "  parley orgs add acme --tier pro",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&tier, "tier", "free", "serve it in `TIER`: free, pro or enterprise")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		class, ok := tenant.ParseClass(tier)
		if !ok {
			return fmt.Errorf("--tier: %q is not a tier: use free, pro or enterprise: %w", tier, cli.ErrUsage)
		}
		ctx := cmd.Context()
		return o.with(ctx, func(s *server) error {
			var made tenant.OrganizationDocument
			err := s.Call(ctx, http.MethodPost, projectsPath, map[string]string{"id": args[0], "tier": class.String()},
				&made)
			return o.showOrgs(cmd, []tenant.OrganizationDocument{made}, err)
		}, func(d *directory) error {
			made, err := d.CreateOrganization(ctx, tenant.Organization{ID: args[0], Tier: class}, time.Now())
			if err != nil {
				return err
			}
			shown := made.Document()
			return o.showOrgs(cmd, []tenant.OrganizationDocument{shown},
				d.record(ctx, "project.created", made.ID, nil, shown))
		})
	}
	return cmd
}

func newOrgsBlock(o *options, block bool) *cobra.Command {
	use, short := "block", "Refuse all calls of an organisation"
	if !block {
		use, short = "unblock", "Accept the calls of an organisation again"
	}
	return &cobra.Command{
		Use:     use + " ORGANISATION",
		Short:   short,
		Example: "  parley orgs " + use + " acme",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return o.with(ctx, func(s *server) error {
				var changed tenant.OrganizationDocument
				err := s.Call(ctx, http.MethodPost, projectsPath+"/"+args[0], map[string]bool{"blocked": block},
					&changed)
				return o.showOrgs(cmd, []tenant.OrganizationDocument{changed}, err)
			}, func(d *directory) error {
				before, err := d.Organization(ctx, args[0])
				if err != nil {
					return explain(args[0], err)
				}
				changed, err := d.ChangeOrganization(ctx, args[0], tenant.OrganizationChange{Blocked: &block})
				if err != nil {
					return err
				}
				shown := changed.Document()
				return o.showOrgs(cmd, []tenant.OrganizationDocument{shown},
					d.record(ctx, "project.updated", changed.ID, before.Document(), shown))
			})
		},
	}
}

// explain names the organisation that does not exist.
func explain(id string, err error) error {
	if errors.Is(err, tenant.ErrNotFound) {
		return parley.Errorf(parley.NotFound, "no organisation %q; parley orgs list shows all organisations", id)
	}
	return err
}

func newOrgsDelete(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ORGANISATION",
		Short:   "Delete an organisation that has neither people nor keys",
		Example: "  parley orgs delete acme",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			err := o.with(ctx, func(s *server) error {
				var gone map[string]any
				return s.Call(ctx, http.MethodDelete, projectsPath+"/"+args[0], nil, &gone)
			}, func(d *directory) error {
				before, err := d.Organization(ctx, args[0])
				if err != nil {
					return explain(args[0], err)
				}
				if err := d.DeleteOrganization(ctx, args[0]); err != nil {
					return err
				}
				return d.record(ctx, "project.deleted", args[0], before.Document(), nil)
			})
			if err != nil {
				return err
			}
			if o.JSON {
				return cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"id": args[0], "deleted": true})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Deleted the organisation %s.\n", args[0])
			return err
		},
	}
}

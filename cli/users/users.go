package users

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"parley/cli"
	"parley/gateway/accounts"
	"parley/gateway/signin"
	"parley/gateway/tenant"

	"github.com/spf13/cobra"
)

// New returns the command `parley users`.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "users",
		Short: "Invite, list and manage the people of a server",
		Long: `Invite, list and manage the people who sign in to a server.

A person belongs to an organisation and is a member, an org-admin, who also manages the
people of the organisation, or a server-admin, who operates the server.

Without --url the command works on the server's store, whether the server runs or not:
pass the same --data or --store as for parley serve. With --url it calls a running
server, with an admin key in PARLEY_API_KEY. Changes reach running servers within a
second.`,
		Example: `  parley users add boss@example.com --role server-admin
  parley users invite ann@example.com --org acme
  parley users list
  parley users role ann@example.com org-admin
  parley users disable ann@example.com`,
	}
	o := &options{}
	o.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(newList(o), newAdd(o), newInvite(o), newRole(o), newDisable(o, true), newDisable(o, false),
		newDelete(o))
	return cmd
}

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

func newList(o *options) *cobra.Command {
	var organization string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the people",
		Example: "  parley users list\n  parley users list --org acme --json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&organization, "org", "", "list only those of `ORGANISATION`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		show := func(all []*signin.UserDocument) error {
			if o.JSON {
				return cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"schema": "parley-users/1", "users": all})
			}
			return printUsers(cmd.OutOrStdout(), all, time.Now())
		}
		return o.with(cmd.Context(), func(s *server) error {
			all, err := s.users(cmd.Context(), organization)
			if err != nil {
				return err
			}
			return show(all)
		}, func(d *directory) error {
			users, err := d.Accounts().Users(cmd.Context(), organization)
			if err != nil {
				return err
			}
			all := []*signin.UserDocument{}
			for i := range users {
				all = append(all, signin.UserShown(&users[i]))
			}
			return show(all)
		})
	}
	return cmd
}

func printUsers(out io.Writer, all []*signin.UserDocument, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "There are no people. Invite one with: parley users invite EMAIL")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EMAIL\tNAME\tORGANISATION\tROLE\tSTATE\tSIGNED IN\tID")
	for _, u := range all {
		state, seen := "active", "never"
		if u.Disabled {
			state = "disabled"
		}
		if u.SignedInAt != nil {
			seen = now.Sub(time.Unix(*u.SignedInAt, 0)).Truncate(time.Second).String() + " ago"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", u.Email, cli.OrDash(u.Name), u.Organization, u.Role, state, seen,
			u.ID)
	}
	return w.Flush()
}

// A fresh account is what add and invite are given.
type newAccount struct {
	name, role, organization, tier string
	models                         []string
	passwordStdin                  bool
}

func (n *newAccount) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.role, "role", "member", "give the role `ROLE`: member, org-admin or server-admin")
	f.StringVar(&n.organization, "org", tenant.LocalOrganization, "add to `ORGANISATION`, which is created if missing")
	f.StringVar(&n.tier, "tier", "", "serve in `TIER`: free, pro or enterprise (default: the organisation's)")
	f.StringSliceVar(&n.models, "model", nil, "allow only `MODEL`; repeatable (default: what the organisation may use)")
}

func (n *newAccount) grant() signin.GrantRequest {
	g := signin.GrantRequest{Role: &n.role, Organization: &n.organization}
	if n.tier != "" {
		g.Tier = &n.tier
	}
	if n.models != nil {
		g.Models = &n.models
	}
	return g
}

// stored returns the grant as the store has it.
func (n *newAccount) stored() (g accounts.Grant, err error) {
	if _, ok := tenant.ParseClass(n.tier); !ok && n.tier != "" {
		return g, fmt.Errorf("--tier: %q is not a tier: use free, pro or enterprise: %w", n.tier, cli.ErrUsage)
	}
	role, err := accounts.ParseRole(n.role)
	return accounts.Grant{Role: role, Organization: n.organization, Tier: n.tier, Models: n.models}, err
}

func newInvite(o *options) *cobra.Command {
	n := &newAccount{}
	cmd := &cobra.Command{
		Use:   "invite EMAIL",
		Short: "Make a link with which a person creates an account",
		Long: `Make a link with which a person creates an account, once, within a week.

For a person who has an account the link serves to choose a new password.`,
		Example: "  parley users invite ann@example.com --org acme",
		Args:    cobra.ExactArgs(1),
	}
	n.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.invite(cmd, n, args[0]) }
	return cmd
}

// invite makes an invitation, or a link for a new password, and prints it.
func (o *options) invite(cmd *cobra.Command, n *newAccount, email string) error {
	ctx := cmd.Context()
	return o.with(ctx, func(s *server) error {
		made := &signin.InviteDocument{}
		if u, err := s.find(ctx, email); err == nil {
			err = s.Call(ctx, http.MethodPost, usersPath+"/"+u.ID+"/reset", map[string]any{}, made)
			return o.showLink(cmd, made, err)
		}
		err := s.Call(ctx, http.MethodPost, invitesPath, struct {
			Email string `json:"email"`
			signin.GrantRequest
		}{email, n.grant()}, made)
		return o.showLink(cmd, made, err)
	}, func(d *directory) error {
		made, err := d.invite(ctx, n, email)
		return o.showLink(cmd, made, err)
	})
}

func (d *directory) invite(ctx context.Context, n *newAccount, email string) (*signin.InviteDocument, error) {
	g, err := n.stored()
	if err != nil {
		return nil, err
	}
	invitation := accounts.Invitation{Email: email, Grant: g}
	if u, err := d.Accounts().UserOf(ctx, email); err == nil {
		invitation = accounts.Invitation{User: u.ID, Email: u.Email, Grant: u.Grant}
	}
	if err := d.EnsureOrganization(ctx, invitation.Organization, time.Now()); err != nil {
		return nil, err
	}
	made, token, err := d.Accounts().Invite(ctx, invitation, time.Now())
	if err != nil {
		return nil, err
	}
	return signin.InviteShown(&made, token), d.record(ctx, "invite.sent", made.ID, nil, signin.InviteShown(&made, ""))
}

// showLink prints where an invited person continues.
func (o *options) showLink(cmd *cobra.Command, made *signin.InviteDocument, err error) error {
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.PrintJSON(cmd.OutOrStdout(), made)
	}
	purpose := "create an account"
	if made.User != nil {
		purpose = "choose a new password"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "With this link %s can %s, once, until %s:\n", made.Email, purpose,
		time.Unix(made.ExpiresAt, 0).Format(time.DateTime))
	base := strings.TrimSuffix(o.URL, "/")
	if base == "" {
		base = "http://127.0.0.1:8080"
		fmt.Fprintln(cmd.ErrOrStderr(), "(with the address of your server in place of 127.0.0.1:8080)")
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), base+made.Path)
	return err
}

func newAdd(o *options) *cobra.Command {
	n := &newAccount{}
	cmd := &cobra.Command{
		Use:   "add EMAIL",
		Short: "Add a person",
		Long: `Add a person: with --password-stdin an account with the password in the first line of the
input, otherwise a link with which the person creates it, as parley users invite does.

This is how the first server-admin is created. From then on the server requires a
sign-in or a key for every call.`,
		Example: "  parley users add boss@example.com --role server-admin",
		Args:    cobra.ExactArgs(1),
	}
	n.addFlags(cmd)
	cmd.Flags().StringVar(&n.name, "name", "", "name the person `NAME`")
	cmd.Flags().BoolVar(&n.passwordStdin, "password-stdin", false, "read the password from the input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !n.passwordStdin {
			return o.invite(cmd, n, args[0])
		}
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && line == "" {
			return fmt.Errorf("--password-stdin: the input has no password: %w", cli.ErrUsage)
		}
		return o.add(cmd, n, args[0], strings.TrimRight(line, "\r\n"))
	}
	return cmd
}

func (o *options) add(cmd *cobra.Command, n *newAccount, email, password string) error {
	ctx := cmd.Context()
	return o.with(ctx, func(s *server) error {
		made := &signin.UserDocument{}
		err := s.Call(ctx, http.MethodPost, usersPath, signin.UserRequest{
			Email:        &email,
			Name:         &n.name,
			Password:     &password,
			GrantRequest: n.grant(),
		}, made)
		return o.showUser(cmd, made, err)
	}, func(d *directory) error {
		g, err := n.stored()
		if err != nil {
			return err
		}
		if err := d.EnsureOrganization(ctx, g.Organization, time.Now()); err != nil {
			return err
		}
		u, err := d.Accounts().Create(ctx, accounts.NewUser{Email: email, Name: n.name, Password: password, Grant: g},
			time.Now())
		if err != nil {
			return err
		}
		shown := signin.UserShown(&u)
		return o.showUser(cmd, shown, d.record(ctx, "user.created", u.ID, nil, shown))
	})
}

// showUser prints an account.
func (o *options) showUser(cmd *cobra.Command, u *signin.UserDocument, err error) error {
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.PrintJSON(cmd.OutOrStdout(), u)
	}
	return printUsers(cmd.OutOrStdout(), []*signin.UserDocument{u}, time.Now())
}

func newRole(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "role USER ROLE",
		Short:   "Give a person another role: member, org-admin or server-admin",
		Long:    "Give a person another role: member, org-admin or server-admin.\n\nUSER is an email address or an id.",
		Example: "  parley users role ann@example.com org-admin",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			role, err := accounts.ParseRole(args[1])
			if err != nil {
				return err
			}
			text := string(role)
			return o.change(cmd, args[0], signin.UserRequest{GrantRequest: signin.GrantRequest{Role: &text}},
				accounts.UserChange{Role: &role})
		},
	}
}

func newDisable(o *options, disable bool) *cobra.Command {
	use, short := "disable", "Disable an account: its sessions end, and its API keys are refused"
	if !disable {
		use, short = "enable", "Enable an account that was disabled"
	}
	return &cobra.Command{
		Use:     use + " USER",
		Short:   short,
		Long:    short + ".\n\nUSER is an email address or an id.",
		Example: "  parley users " + use + " ann@example.com",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd, args[0], signin.UserRequest{Disabled: &disable},
				accounts.UserChange{Disabled: &disable})
		},
	}
}

func (o *options) change(cmd *cobra.Command, name string, r signin.UserRequest, c accounts.UserChange) error {
	ctx := cmd.Context()
	return o.with(ctx, func(s *server) error {
		u, err := s.find(ctx, name)
		if err != nil {
			return err
		}
		err = s.Call(ctx, http.MethodPost, usersPath+"/"+u.ID, r, u)
		return o.showUser(cmd, u, err)
	}, func(d *directory) error {
		before, err := d.find(ctx, name)
		if err != nil {
			return err
		}
		u, err := d.Accounts().Change(ctx, before.ID, c)
		if err != nil {
			return err
		}
		shown := signin.UserShown(&u)
		return o.showUser(cmd, shown, d.record(ctx, "user.updated", u.ID, signin.UserShown(&before), shown))
	})
}

func newDelete(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "delete USER",
		Short: "Delete an account with its chats, files and API keys, on a running server",
		Long: `Delete an account with its chats, files and API keys.

Only a running server can do that, as it holds the files: give --url. Without it, disable
the account. USER is an email address or an id.`,
		Example: "  parley users delete ann@example.com --url http://127.0.0.1:8080",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return o.with(ctx, func(s *server) error {
				u, err := s.find(ctx, args[0])
				if err != nil {
					return err
				}
				var gone map[string]any
				if err := s.Call(ctx, http.MethodDelete, usersPath+"/"+u.ID, nil, &gone); err != nil {
					return err
				}
				if o.JSON {
					return cli.PrintJSON(cmd.OutOrStdout(), gone)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Deleted %s with all that was stored.\n", u.Email)
				return err
			}, func(*directory) error {
				return fmt.Errorf("only a running server deletes an account: give --url, or use 'users disable': %w",
					cli.ErrUsage)
			})
		},
	}
}

package settings

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"parley/cli/remote"
	"parley/gateway/audit"
	"parley/gateway/db"
	"parley/gateway/tenant"
)

// OperatorOptions say where a command for operators works: at a running server, or in
// the store of one.
type OperatorOptions struct {
	// JSON asks for output that programs read, URL for a server instead of its store.
	JSON bool
	URL  string

	config       string
	storeSetting Flags
}

// AddFlags adds the flags of the options.
func (o *OperatorOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.StringVar(&o.URL, "url", "", "use the server at `URL`, with an admin key in PARLEY_API_KEY, instead of its store")
	f.StringVar(&o.config, "config", os.Getenv("PARLEY_CONFIG"), "find the store by the settings in the YAML `FILE`")
	o.storeSetting = AddFlags(f, "data", "store")
}

// An OperatorStore is the store of a server.
type OperatorStore struct {
	*tenant.Store
	Audit    *audit.Log
	Database *db.DB
	Settings *Settings
}

// With runs onServer if the flags name a server, and onStore with its store otherwise.
func (o *OperatorOptions) With(
	ctx context.Context, onServer func(*remote.Client) error, onStore func(*OperatorStore) error,
) error {
	if o.URL != "" {
		c, err := remote.New(o.URL)
		if err != nil {
			return err
		}
		return onServer(c)
	}
	s, err := Gather(o.storeSetting, os.LookupEnv, o.config)
	if err != nil {
		return err
	}
	database, err := s.OpenDatabase(ctx)
	if err != nil {
		return err
	}
	defer database.Close()
	tenants, err := tenant.New(ctx, database)
	if err != nil {
		return UnusableStore(err)
	}
	entries, err := audit.Open(ctx, database, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return UnusableStore(err)
	}
	return onStore(&OperatorStore{Store: tenants, Audit: entries, Database: database, Settings: s})
}

// UnusableStore says what to do about a store that cannot be used.
func UnusableStore(err error) error { return fmt.Errorf("%w (choose another with --store)", err) }

package ops

import (
	"context"
	"log/slog"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/audit"
	"parley/gateway/exchange"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/prefix"
	"parley/gateway/record"
	"parley/gateway/safety"
	"parley/gateway/tenant"
	"parley/limit"

	"github.com/prometheus/client_golang/prometheus"
)

// An API answers the routes that show and change the server, and those that show
// callers what they have used. Which caller may use which of them was decided before.
type API struct {
	// Keys, Ledger, Audit and Fleet may each be nil: what needs them has no routes, or
	// shows nothing.
	Keys   *tenant.Keyring
	Ledger *ledger.Ledger
	Audit  *audit.Log
	Fleet  *admin.Fleet
	// Prefixes has found the prompts that stopped hitting the cache.
	Prefixes *prefix.Watch
	Safety   *safety.Policies
	Records  *record.Recorder
	Registry *prometheus.Registry
	Log      *slog.Logger
	Now      func() time.Time
	// Scaling is what autoscalers report.
	Scaling Scaling
	// BudgetAlert is the alert of budgets that have none of their own; Currency is what
	// prices are in.
	BudgetAlert limit.Share
	Currency    string
	// WriteWaitMax bounds one write to a client that does not read.
	WriteWaitMax time.Duration
	// Process is what is shown of the program itself.
	Process Process
	// Models is set if there is a model folder to show.
	Models bool
	// Draining reports whether the server shuts down.
	Draining func() bool
	// Text returns how tokens of a model read.
	Text func(model string, tokens []parley.Token) string
	// Quotas returns how a caller's organisation and its user stand with their quotas.
	Quotas func(context.Context, *exchange.Exchange) (organization, user QuotaDocument, err error)
}

// A Setting is a setting of the server, given or at its default.
type Setting struct {
	Key string `json:"key"`
	// Values are what it was set to, without secrets; empty means the default.
	Values []string `json:"values"`
	// From is where they come from: a flag, a variable, or the configuration file.
	From string `json:"from,omitempty"`
	// Help describes it, with its default.
	Help string `json:"help"`
}

// A Process is what [API.ShowServer] describes of the program.
type Process struct {
	Version  string
	Started  time.Time
	Settings []Setting
	Models   func() []*models.Model
}

// A QuotaDocument is what is stored, beside what may be.
type QuotaDocument struct {
	Used  tenant.Quota `json:"used"`
	Limit tenant.Quota `json:"limit"`
}

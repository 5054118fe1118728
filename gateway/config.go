package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/audit"
	"parley/gateway/batch"
	"parley/gateway/book"
	"parley/gateway/convo"
	"parley/gateway/infer"
	"parley/gateway/issuer"
	"parley/gateway/job"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/ops"
	"parley/gateway/otlp"
	"parley/gateway/record"
	"parley/gateway/runs"
	"parley/gateway/safety"
	"parley/gateway/tenant"
	"parley/limit"

	"github.com/prometheus/client_golang/prometheus"
)

// A Config says what a gateway serves and how. The zero value of every field
// works, except that at least one model must be served.
type Config struct {
	// Models are the served models, at least one.
	Models []models.Config
	// Version is that of the program, as GET /version shows it.
	Version string
	// Settings are the settings of the program, shown to operators.
	Settings []ops.Setting
	// Log receives one line per finished request; default: slog.Default().
	Log *slog.Logger
	// Now is the clock of answers and measurements; default: time.Now.
	Now func() time.Time
	// BodyBytesMax bounds a request body, in bytes; default 16 MiB, at most 1 GiB.
	BodyBytesMax int64
	// BodyBytesTotal and BodyBytesPerKey bound the bodies that are in memory at the
	// same time, in bytes: of all callers, default 256 MiB, and of one key, default
	// BodyBytesMax. Further requests wait briefly, and are then rejected.
	BodyBytesTotal, BodyBytesPerKey int64
	// SocketsPerKey bounds the WebSocket connections of one key; default 32.
	SocketsPerKey int
	// BodyWaitMax bounds how long a body may take to arrive; default 60 s.
	BodyWaitMax time.Duration
	// KeepAlive is the time without data after which a stream sends a comment; default and
	// limit 15 s, because proxies close idle connections.
	KeepAlive time.Duration
	// WriteWaitMax bounds one write to a client that does not read; default 30 s.
	WriteWaitMax time.Duration
	// AllowOrigins lists the web origins whose pages may call this server, such
	// as "https://chat.example.com"; "*" allows all. Default none: this server
	// often runs on a laptop without keys, and otherwise any page that the user opens could
	// use the machine and read the answers.
	AllowOrigins []string
	// TrustedProxies are the networks of reverse proxies whose X-Forwarded-For and
	// Forwarded headers are trusted, for addresses in logs and limits, never for rights.
	TrustedProxies []netip.Prefix
	// Store has the conversations and responses. Nil stores none: responses are then only
	// answered, and there are no conversations. The program that opened it
	// closes it, after [Gateway.Close].
	Store *convo.Store
	// writes is the store for runs; default Store.
	writes runs.Store
	// StoreFull reports whether the disk of the store is full. Readiness then reports
	// degraded: models answer, but nothing is stored. May be nil.
	StoreFull func() bool
	// Audit records who changed the server, and how. May be nil.
	Audit *audit.Log
	// Trend stores the data of charts across restarts; nil keeps it in memory.
	Trend *record.TrendStore
	// NoAddresses omits the addresses of clients from request lines and the audit log.
	NoAddresses bool
	// Retention says how long data is stored.
	Retention Retention
	// NoTitles leaves conversations without the title that the model writes for
	// them after their first turn.
	NoTitles bool
	// Batches stores files and batches, and runs the batches. Nil stores none.
	// The program that opened it closes it, after [Gateway.Close].
	Batches *batch.Store
	// Admission says which requests wait, for how long, and which are rejected.
	Admission infer.Admission
	// Share says which answers several clients may share.
	Share infer.Sharing
	// Pages serves the pages at /, such as the chat; nil serves none. They are public: they
	// load their data from this server.
	Pages http.Handler
	// Traces exports the traces of requests to a collector; nil exports none.
	Traces *otlp.Exporter
	// Fleet shows and controls workers in other processes, for operators; nil if there are
	// none.
	Fleet *admin.Fleet
	// FleetAPI answers the routes under /fleet/; nil has none of them.
	FleetAPI *FleetAPI
	// ModelAPI shows and changes the model folder, for operators, under /admin/api/models;
	// nil has none of these routes.
	ModelAPI http.Handler
	// SLO has the latency objectives of the server; the zero value is [parley.DefaultSLO].
	// TTFTShare and TPOTShare are the shares of first and later tokens that must meet them,
	// as in [parley.Objective]. Objectives are for the requests of some models, classes and
	// purposes; the first that selects a request applies.
	SLO                  parley.SLO
	TTFTShare, TPOTShare float64
	Objectives           parley.Objectives
	// Keys identify callers; nil treats every caller as the operator, for tests and for
	// programs with their own access control. The program that made it closes it, after
	// [Gateway.Close].
	Keys *tenant.Keyring
	// Issuer vouches for people who sign in by OpenID Connect; nil for none.
	Issuer *issuer.Issuer
	// LocalToken lets its bearer read stored data and operate a server without keys; empty
	// lets no caller. It is invalid once a key exists.
	LocalToken string
	// MetricsOpen lets every client that reaches the server read GET /metrics.
	MetricsOpen bool
	// Aliases are other names for models.
	Aliases map[string]models.Alias
	// Fallbacks are the fallbacks of models, by their names.
	Fallbacks map[string]models.Fallback
	// TierContexts bound the history of conversations, for each class of tenants; the zero
	// value is [DefaultTierContexts].
	TierContexts models.TierContexts
	// SaltKey separates the caches of tenants: salts are derived from it and the tenant's
	// name. Servers that share workers need the same key; default: a random one.
	SaltKey []byte
	// CacheScope says which callers share cached context and answers; default
	// [job.ScopeUser].
	CacheScope job.CacheScope
	// PublicPrompts are beginnings of conversations, as system messages, whose
	// context all tenants share: none of them is a secret.
	PublicPrompts []string
	// Limits records the use of limits by callers; default: in this process's memory. The
	// program that opened it closes it, after [Gateway.Close].
	Limits book.Book
	// Ledger records the usage of every request; nil records none. The program that opened it
	// closes it, after [Gateway.Close].
	Ledger *ledger.Ledger
	// BudgetAlert is the share of a budget at which it is nearly spent, for accounts without
	// their own; 0 is never. Responses then have a header; the Watch of Limits sends all
	// other alerts.
	BudgetAlert limit.Share
	// Prices are the prices of models; a model without a price is free.
	Prices ledger.Prices
	// Currency is the currency of prices; default "usd".
	Currency string
	// Safety screens prompts and answers; default: the policies of
	// [safety.DefaultBook], which flags and never blocks.
	Safety *safety.Policies
	// Registry holds the metrics of GET /metrics; default: a new one with the
	// Go runtime's and the process's own.
	Registry *prometheus.Registry
}

// A Retention says how long data is stored. The store of batches has a separate one for
// files.
type Retention struct {
	// Conversations is how long they are kept after their last change; 0 keeps them.
	Conversations time.Duration
	// Responses is how long they are kept after their last follow-up; default 30 days.
	Responses time.Duration
	// Ledger is how long its entries are kept; 0 keeps them. Budgets need a month.
	Ledger time.Duration
}

const (
	bodyBytesDefault = 16 << 20
	bodyBytesLimit   = 1 << 30
	bodyTotalDefault = 256 << 20

	socketsPerKeyDefault = 32
	bodyWaitDefault      = 60 * time.Second
	keepAliveLimit       = 15 * time.Second
	writeWaitDefault     = 30 * time.Second
)

// Validate reports everything that is wrong with c, joined into one error.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.BodyBytesMax < 0 || c.BodyBytesMax > bodyBytesLimit {
		wrong("BodyBytesMax is %d: it must be 0 (default) to %d", c.BodyBytesMax, bodyBytesLimit)
	}
	if c.SocketsPerKey < 0 {
		wrong("SocketsPerKey is %d: it must be 0 (default) or more", c.SocketsPerKey)
	}
	if c.BodyBytesTotal < 0 || c.BodyBytesPerKey < 0 {
		wrong("BodyBytesTotal is %d and BodyBytesPerKey %d: neither may be negative", c.BodyBytesTotal,
			c.BodyBytesPerKey)
	}
	if c.KeepAlive < 0 || c.KeepAlive > keepAliveLimit {
		wrong("KeepAlive is %v: it must be 0 (default) to %v", c.KeepAlive, keepAliveLimit)
	}
	if c.BodyWaitMax < 0 || c.WriteWaitMax < 0 {
		wrong("BodyWaitMax is %v and WriteWaitMax %v: neither may be negative", c.BodyWaitMax, c.WriteWaitMax)
	}
	if err := c.Admission.Validate(); err != nil {
		wrong("admission: %w", err)
	}
	problems = append(problems, models.CheckAliases(c.Aliases, c.Models),
		models.CheckFallbacks(c.Fallbacks, c.Models), c.objectives().Validate())
	if c.TierContexts != (models.TierContexts{}) {
		problems = append(problems, c.TierContexts.Validate())
	}
	return errors.Join(append(problems, models.Check(c.Models))...)
}

// objectives returns what is promised to which requests.
func (c *Config) objectives() parley.Objectives {
	return parley.NewObjectives(c.Objectives, parley.Objective{
		SLO: c.SLO, TTFTShare: c.TTFTShare, TPOTShare: c.TPOTShare,
	})
}

// withDefaults returns c with every zero field filled in.
func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	setDefault(&c.BodyBytesMax, bodyBytesDefault)
	setDefault(&c.SocketsPerKey, socketsPerKeyDefault)
	setDefault(&c.BodyBytesPerKey, c.BodyBytesMax)
	setDefault(&c.BodyBytesTotal, max(bodyTotalDefault, c.BodyBytesMax))
	setDefault(&c.BodyWaitMax, bodyWaitDefault)
	setDefault(&c.KeepAlive, keepAliveLimit)
	setDefault(&c.WriteWaitMax, writeWaitDefault)
	c.Admission = c.Admission.WithDefaults()
	c.Share = c.Share.WithDefaults()
	setDefault(&c.TierContexts, models.DefaultTierContexts())
	setDefault(&c.SLO, parley.DefaultSLO())
	setDefault(&c.Currency, "usd")
	if c.Limits == nil {
		c.Limits = book.NewMemory(c.Now)
	}
	if c.Safety == nil {
		c.Safety = safety.NewPolicies(nil)
	}
	if c.Registry == nil {
		c.Registry = record.NewRegistry()
	}
	setDefault(&c.CacheScope, job.ScopeUser)
	if len(c.SaltKey) == 0 {
		c.SaltKey = job.RandomKey()
	}
	return c
}

// runs says how the answers are kept that this process writes.
func (c *Config) runs() runs.Config {
	return runs.Config{
		Store:     c.Store,
		Writes:    c.writes,
		Process:   "parley_" + randomSuffix(),
		Ledger:    c.Ledger,
		Retention: convo.Retention{Conversations: c.Retention.Conversations, Responses: c.Retention.Responses},
		LedgerFor: c.Retention.Ledger,
		Now:       c.Now,
		Log:       c.Log,
	}
}

func setDefault[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

// A FleetAPI answers the routes under /fleet/. The gateway decides who may call
// them, checks where a request comes from, and logs and counts it as any other.
type FleetAPI struct {
	// Operate shows and changes the fleet. It is called for operators only.
	Operate http.Handler
	// MayOperate reports whether a secret is the fleet's operate token, which is
	// accepted beside admin keys; nil accepts none.
	MayOperate func(secret string) bool
	// Register is where workers register. It checks their credentials; nil if
	// workers may not register.
	Register http.Handler
}

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
	// Models are what clients can ask for. At least one.
	Models []models.Config
	// Version is that of the program, as GET /version shows it.
	Version string
	// Settings are what the program was told, for operators to see.
	Settings []ops.Setting
	// Log receives one line per finished request; default: slog.Default().
	Log *slog.Logger
	// Now is the clock of answers and measurements; default: time.Now.
	Now func() time.Time
	// BodyBytesMax bounds a request body, in bytes; default 16 MiB, at most 1 GiB.
	BodyBytesMax int64
	// BodyBytesTotal and BodyBytesPerKey bound the bodies that are in memory at the
	// same time, in bytes: of all callers, default 256 MiB, and of one key, default
	// BodyBytesMax. Requests wait for a short time, and are refused then.
	BodyBytesTotal, BodyBytesPerKey int64
	// SocketsPerKey bounds the WebSocket connections of one key; default 32.
	SocketsPerKey int
	// BodyWaitMax bounds how long a body may take to arrive; default 60 s.
	BodyWaitMax time.Duration
	// KeepAlive is how long a stream stays silent before a comment is sent;
	// default and limit 15 s: proxies close silent connections.
	KeepAlive time.Duration
	// WriteWaitMax bounds one write to a client that does not read; default 30 s.
	WriteWaitMax time.Duration
	// AllowOrigins lists the web origins whose pages may call this server, such
	// as "https://chat.example.com"; "*" allows all. Default none: this server
	// often runs on a laptop without keys, and any page the user opens could
	// otherwise spend the machine and read the answers.
	AllowOrigins []string
	// TrustedProxies are the networks of reverse proxies whose X-Forwarded-For and
	// Forwarded headers are believed: for the address in logs and limits, never for
	// rights.
	TrustedProxies []netip.Prefix
	// Store keeps conversations and responses. Nil keeps none: responses are then
	// answered and forgotten, and there are no conversations. The program that opened it
	// closes it, after [Gateway.Close].
	Store *convo.Store
	// writes is what runs write to; default Store.
	writes runs.Store
	// StoreFull reports whether the disk of the store is full. Readiness then
	// says so: answers are still given, but nothing is stored. May be nil.
	StoreFull func() bool
	// Audit records who changed the server, and how. May be nil.
	Audit *audit.Log
	// Trend keeps what charts show over restarts; nil keeps it in memory.
	Trend *record.TrendStore
	// NoAddresses keeps the addresses of clients out of request lines and the audit log.
	NoAddresses bool
	// Retention says how long what is stored is kept.
	Retention Retention
	// NoTitles leaves conversations without the title that the model writes for
	// them after their first turn.
	NoTitles bool
	// Batches keeps files and batches, and has the latter answered. Nil keeps none.
	// The program that opened it closes it, after [Gateway.Close].
	Batches *batch.Store
	// Admission says who waits, for how long, and who is turned away.
	Admission infer.Admission
	// Share says which answers are given to more than one client.
	Share infer.Sharing
	// Pages are what people see at /, such as the chat; nil has none. They are
	// public: what they show they ask this server for.
	Pages http.Handler
	// Traces sends what became of requests to a collector; nil sends nothing.
	Traces *otlp.Exporter
	// Fleet is the door to workers in other processes, for operators; nil if there
	// are none.
	Fleet *admin.Fleet
	// FleetAPI answers the routes under /fleet/; nil has none of them.
	FleetAPI *FleetAPI
	// ModelAPI shows and changes the model folder, for operators, under /admin/api/models;
	// nil has none of these routes.
	ModelAPI http.Handler
	// SLO is what users are promised, and what the operator is shown to be kept or
	// not; the zero value is [parley.DefaultSLO]. TTFTShare and TPOTShare are the
	// shares of first and later tokens for which it is meant, as in
	// [parley.Objective]. Objectives are promises to the requests of some models,
	// classes and purposes; the first that selects a request holds for it.
	SLO                  parley.SLO
	TTFTShare, TPOTShare float64
	Objectives           parley.Objectives
	// Keys identify callers; nil takes every caller for the operator, and is for tests
	// and programs that check by themselves. The program that made it closes it, after
	// [Gateway.Close].
	Keys *tenant.Keyring
	// Issuer vouches for people who sign in by OpenID Connect; nil for none.
	Issuer *issuer.Issuer
	// LocalToken is what the person who runs a server without keys shows to read what
	// is stored and to operate it; empty allows it to no caller. Once there is a key, it is
	// worth nothing.
	LocalToken string
	// MetricsOpen lets every client that reaches the server read GET /metrics.
	MetricsOpen bool
	// Aliases are other names for models.
	Aliases map[string]models.Alias
	// Fallbacks are asked where a model does not answer, by its name.
	Fallbacks map[string]models.Fallback
	// TierContexts say what conversations may hold, for each class of tenants; the
	// zero value is [DefaultTierContexts].
	TierContexts models.TierContexts
	// SaltKey keeps what is cached for one tenant from being found by another:
	// salts are derived from it and the tenant's name. Servers that share workers
	// need the same; default: a random one.
	SaltKey []byte
	// CacheScope says which callers share what is cached; default [job.ScopeUser].
	CacheScope job.CacheScope
	// PublicPrompts are beginnings of conversations, as system messages, whose
	// context all tenants share: none of them is a secret.
	PublicPrompts []string
	// Limits keeps what callers have used of their limits; default: this process's
	// memory. The program that opened it closes it, after [Gateway.Close].
	Limits book.Book
	// Ledger keeps what every request used; nil keeps nothing. The program that opened it
	// closes it, after [Gateway.Close].
	Ledger *ledger.Ledger
	// BudgetAlert is the share of a budget from which on it is nearly spent, where an
	// account has none of its own; 0 is never. Callers are told by a header then;
	// whom else to tell is the Watch's business that Limits have.
	BudgetAlert limit.Share
	// Prices are what models cost; a model without a price is free.
	Prices ledger.Prices
	// Currency is what prices are in; default "usd".
	Currency string
	// Safety screens prompts and answers; default: the policies of
	// [safety.DefaultBook], which flags and never blocks.
	Safety *safety.Policies
	// Registry holds the metrics of GET /metrics; default: a new one with the
	// Go runtime's and the process's own.
	Registry *prometheus.Registry
}

// A Retention says how long what is stored is kept. Files have their own, with the
// store of batches.
type Retention struct {
	// Conversations is how long they are kept after their last change; 0 keeps them.
	Conversations time.Duration
	// Responses is how long they are kept after they were followed last; default 30 days.
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

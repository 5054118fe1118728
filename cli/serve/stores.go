package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cli"
	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/audit"
	"parley/gateway/book"
	"parley/gateway/convo"
	"parley/gateway/db"
	"parley/gateway/issuer"
	"parley/gateway/ledger"
	"parley/gateway/record"
	"parley/gateway/relay"
	"parley/gateway/tenant"
	"parley/limit"
)

// A stores is what outlives a server, in one database: conversations, the ledger,
// and the use of limits.
type stores struct {
	store  *convo.Store
	full   func() bool // whether the disk of the store is full
	audit  *audit.Log
	trend  *record.TrendStore
	ledger *ledger.Ledger
	limits book.Book
	// budgets tell when one is nearly spent.
	budgets *ledger.Teller
	alert   limit.Share
	prices  ledger.Prices
	keys    *tenant.Keyring
	// issuer vouches for people; nil for none.
	issuer *issuer.Issuer
	// salt keeps the cached contexts of tenants apart, the same on every gateway.
	salt []byte
	// relay shares answers with other gateways; nil shares within this one.
	relay *relay.Redis
	// closers are called last first.
	closers []func() error
}

// openStores opens the database that the settings name, and Redis if they name one.
func openStores(ctx context.Context, s *settings.Settings, registry prometheus.Registerer,
	log *slog.Logger) (k *stores, err error) {
	k = &stores{prices: s.Economy.Prices, alert: s.Economy.Alert}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
			k = nil
		}
	}()
	if k.issuer, err = openIssuer(s); err != nil {
		return k, err
	}
	d, err := s.OpenDatabase(ctx)
	if err != nil {
		return k, err
	}
	k.closers = append(k.closers, d.Close)
	k.full = d.Full
	if k.store, err = convo.New(ctx, d); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	if k.ledger, err = ledger.Open(ctx, d, log); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	k.closers = append(k.closers, k.ledger.Close)
	if k.audit, err = audit.Open(ctx, d, s.AuditKeep, log); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	if k.trend, err = record.OpenTrend(ctx, d); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	if err = k.openKeys(ctx, d, s, log); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	if err = k.openBudgets(s.Economy.Hook, registry, log); err != nil {
		return k, err
	}
	if err = k.openLimits(ctx, &s.Economy, registry, log); err != nil {
		return k, err
	}
	k.closers = append(k.closers, k.limits.Close)
	return k, k.openRelay(ctx, s)
}

// openRelay opens what shares answers with other gateways, if there is a Redis and
// the settings let it.
func (k *stores) openRelay(ctx context.Context, s *settings.Settings) (err error) {
	if s.Economy.Redis == "" || s.Share.Off || s.ShareLocal {
		return nil
	}
	k.relay, err = relay.Open(ctx, relay.Config{URL: s.Economy.Redis, Secret: s.SaltSecret(k.salt)})
	if err != nil {
		return fmt.Errorf("%w (name another with --redis, or use --share local)", err)
	}
	k.closers = append(k.closers, k.relay.Close)
	return nil
}

// openKeys opens the keys that identify callers.
func (k *stores) openKeys(ctx context.Context, d *db.DB, s *settings.Settings, log *slog.Logger) error {
	tenants, err := tenant.New(ctx, d)
	if err != nil {
		return err
	}
	if k.salt, err = tenants.Secret(ctx, "cache salt"); err != nil {
		return err
	}
	if k.keys, err = tenant.NewKeyring(ctx, tenants, s.TenantTiers, log); err != nil {
		return err
	}
	k.closers = append(k.closers, func() error { k.keys.Close(); return nil })
	return nil
}

// openIssuer returns the issuer that the settings name, which is not contacted yet.
func openIssuer(s *settings.Settings) (*issuer.Issuer, error) {
	switch c := &s.Issuer; {
	case c.URL != "":
		i, err := issuer.New(*c, time.Now)
		if err != nil {
			err = fmt.Errorf("%w: %w", err, cli.ErrUsage)
		}
		return i, err
	case c.ClientID != "" || c.ClientSecret != "" || len(c.Groups) > 0 || c.CreateUnknown:
		return nil, fmt.Errorf("settings of OpenID Connect need the issuer: set --oidc-issuer: %w", cli.ErrUsage)
	}
	return nil, nil
}

// openBudgets opens the alerts of budgets that are nearly spent.
func (k *stores) openBudgets(hook string, registry prometheus.Registerer, log *slog.Logger) error {
	k.budgets = ledger.NewTeller(ledger.TellerConfig{Ledger: k.ledger, Key: k.keyOf, Webhook: hook, Log: log})
	k.closers = append(k.closers, k.budgets.Close)
	return register(registry, k.budgets.Metrics())
}

// keyOf says what people call a key. One that is deleted meanwhile has no name.
func (k *stores) keyOf(ctx context.Context, id string) (name, prefix string, err error) {
	key, err := k.keys.Store().Key(ctx, id)
	if errors.Is(err, tenant.ErrNotFound) {
		err = nil
	}
	return key.Name, key.Prefix, err
}

func register(registry prometheus.Registerer, metrics []prometheus.Collector) (err error) {
	for _, m := range metrics {
		err = errors.Join(err, registry.Register(m))
	}
	return err
}

// openLimits opens the book of limits: in Redis for several gateways, in memory
// and saved for one.
func (k *stores) openLimits(ctx context.Context, e *settings.Economy, registry prometheus.Registerer,
	log *slog.Logger) error {
	if e.Redis == "" {
		m, err := book.OpenMemory(ctx, &book.Memory{
			Spent: k.spent,
			Watch: k.budgets.Watch,
			Log:   log,
			Save:  k.ledger.SaveAccounts,
			Load: func(ctx context.Context) (map[string]limit.State, error) {
				return k.ledger.LoadAccounts(ctx, time.Now())
			},
		})
		k.limits = m
		return err
	}
	r, err := book.OpenRedis(ctx, book.RedisConfig{
		URL:      e.Redis,
		Gateways: e.Gateways,
		Spent:    k.spent,
		Watch:    k.budgets.Watch,
		Log:      log,
	})
	if err != nil {
		return fmt.Errorf("%w (name another with --redis)", err)
	}
	k.limits = r
	if err := register(registry, r.Metrics()); err != nil {
		return errors.Join(err, r.Close())
	}
	return nil
}

// spent asks the ledger what an account has spent. Accounts are named after an
// tenant, or after one and a key of it.
func (k *stores) spent(ctx context.Context, account string, now time.Time) (limit.Micros, error) {
	organization, key, _ := strings.Cut(account, "/")
	return k.ledger.Spent(ctx, organization, key, now)
}

// give hands what is kept to a gateway.
func (k *stores) give(config *gateway.Config) {
	config.StoreFull, config.Audit, config.Trend = k.full, k.audit, k.trend
	config.Store, config.Ledger, config.Limits, config.Prices = k.store, k.ledger, k.limits, k.prices
	config.Issuer = k.issuer
	config.Keys, config.BudgetAlert, config.Share.Relay = k.keys, k.alert, k.relay
}

func (k *stores) close() (err error) {
	for i := range k.closers {
		err = errors.Join(err, k.closers[len(k.closers)-1-i]())
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/gateway"
	"parley/gateway/convo"
	"parley/gateway/db"
	"parley/gateway/ledger"
	"parley/gateway/limit"
	"parley/gateway/tenant"
)

// A kept is what outlives a server, in one database: conversations, the ledger,
// and the use of limits.
type kept struct {
	store  convo.Store
	ledger *ledger.Ledger
	limits limit.Book
	prices ledger.Prices
	keys   *tenant.Keyring
	// salt keeps the cached contexts of tenants apart, the same on every gateway.
	salt []byte
	// closers are called last first.
	closers []func() error
}

// openKept opens the database that the settings name, and Redis if they name one.
func openKept(ctx context.Context, s *settings, registry prometheus.Registerer, log *slog.Logger) (k *kept, err error) {
	k = &kept{prices: s.economy.prices}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
			k = nil
		}
	}()
	d, err := openDatabase(ctx, s)
	if err != nil {
		return k, err
	}
	k.closers = append(k.closers, d.Close)
	if k.store, err = convo.New(ctx, d); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	if k.ledger, err = ledger.Open(ctx, d, log); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	k.closers = append(k.closers, k.ledger.Close)
	if err = k.openKeys(ctx, d, s, log); err != nil {
		return k, fmt.Errorf("%w (choose another with --store)", err)
	}
	if err = k.openLimits(ctx, &s.economy, registry, log); err != nil {
		return k, err
	}
	k.closers = append(k.closers, k.limits.Close)
	return k, nil
}

// openKeys opens what tells who calls.
func (k *kept) openKeys(ctx context.Context, d *db.DB, s *settings, log *slog.Logger) error {
	tenants, err := tenant.New(ctx, d)
	if err != nil {
		return err
	}
	if k.salt, err = tenants.Secret(ctx, "cache salt"); err != nil {
		return err
	}
	if k.keys, err = tenant.NewKeyring(ctx, tenants, s.tenantTiers, log); err != nil {
		return err
	}
	k.closers = append(k.closers, func() error { k.keys.Close(); return nil })
	return nil
}

// openLimits opens the book of limits: in Redis for several gateways, in memory
// and saved for one.
func (k *kept) openLimits(ctx context.Context, e *economy, registry prometheus.Registerer, log *slog.Logger) error {
	if e.redis == "" {
		m, err := limit.OpenMemory(ctx, &limit.Memory{Spent: k.spent, Log: log, Save: k.ledger.SaveAccounts,
			Load: func(ctx context.Context) (map[string]limit.State, error) {
				return k.ledger.LoadAccounts(ctx, time.Now())
			}})
		k.limits = m
		return err
	}
	r, err := limit.OpenRedis(ctx, limit.RedisConfig{URL: e.redis, Gateways: e.gateways, Spent: k.spent, Log: log})
	if err != nil {
		return fmt.Errorf("%w (name another with --redis)", err)
	}
	k.limits = r
	for _, m := range r.Metrics() {
		if err := registry.Register(m); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	return nil
}

// spent asks the ledger what an account has spent. Accounts are named after an
// organisation, or after one and a key of it.
func (k *kept) spent(ctx context.Context, account string, now time.Time) (limit.Micros, error) {
	organization, key, _ := strings.Cut(account, "/")
	return k.ledger.Spent(ctx, organization, key, now)
}

// give hands what is kept to a gateway.
func (k *kept) give(config *gateway.Config) {
	config.Store, config.Ledger, config.Limits, config.Prices = k.store, k.ledger, k.limits, k.prices
	config.Keys = k.keys
}

func (k *kept) close() (err error) {
	for i := range k.closers {
		err = errors.Join(err, k.closers[len(k.closers)-1-i]())
	}
	return err
}

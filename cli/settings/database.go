package settings

import (
	"context"
	"fmt"

	"parley/gateway/db"
)

// OpenDatabase opens the store of conversations, keys and the ledger.
func (s *Settings) OpenDatabase(ctx context.Context) (*db.DB, error) {
	d, err := db.Open(ctx, s.StoreName())
	if err != nil {
		return nil, fmt.Errorf("%w (choose another with --store)", err)
	}
	return d, nil
}

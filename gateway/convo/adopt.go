package convo

import (
	"context"

	"parley/gateway/db"
)

// Adopt gives all that is stored for an owner to another, who has stored nothing yet.
func (d *Store) Adopt(ctx context.Context, from, to Owner) error {
	if err := checked(from); err != nil {
		return err
	}
	if err := checked(to); err != nil {
		return err
	}
	return d.db.Write(ctx, func(t *db.Tx) error {
		for _, query := range []string{
			`UPDATE conversations SET tenant = $3, user_id = $4 WHERE tenant = $1 AND user_id = $2`,
			`UPDATE responses SET tenant = $3, user_id = $4 WHERE tenant = $1 AND user_id = $2`,
			`UPDATE stored_usage SET tenant = $3, user_id = $4 WHERE tenant = $1 AND user_id = $2`,
		} {
			if _, err := t.Exec(query, from.Tenant, from.User, to.Tenant, to.User); err != nil {
				return err
			}
		}
		return nil
	})
}

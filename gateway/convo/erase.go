package convo

import "context"

// Erase removes all that is stored for an owner, for good: conversations, also deleted
// and temporary ones, and responses. What is written while it runs may stay.
func (d *Store) Erase(ctx context.Context, owner Owner) error {
	if err := checked(owner); err != nil {
		return err
	}
	err := d.purge(ctx, `UPDATE conversations SET deleted = $3 WHERE tenant = $1 AND user_id = $2 AND deleted >= 0
		AND id IN (SELECT id FROM conversations WHERE tenant = $1 AND user_id = $2 AND deleted >= 0 LIMIT $4)`,
		owner.Tenant, owner.User, discarded, purgeAtOnce)
	if err != nil {
		return err
	}
	if err := d.discardAll(ctx, discarded); err != nil {
		return err
	}
	return d.purge(ctx, `DELETE FROM responses WHERE id IN (
		SELECT id FROM responses WHERE tenant = $1 AND user_id = $2 LIMIT $3)`, owner.Tenant, owner.User,
		purgeResponsesAtOnce)
}

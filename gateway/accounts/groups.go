package accounts

import (
	"context"
	"strings"

	"parley"
	"parley/gateway/db"
)

// A GroupRule is what members of a group at an issuer are given at each sign-in. What is empty
// it leaves open.
type GroupRule struct {
	// Name is as the issuer's ID tokens have it.
	Name string
	Grant
}

const groupColumns = `name, role, organization, tier, models`

func scanGroup(r db.Row, g *GroupRule) error {
	var role, models string
	if err := r.Scan(&g.Name, &role, &g.Organization, &g.Tier, &models); err != nil {
		return err
	}
	g.Role = Role(role)
	return readList(models, &g.Models)
}

// Groups lists what the store has, by name.
func (s *Store) Groups(ctx context.Context) (list []GroupRule, err error) {
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scanGroup, `SELECT `+groupColumns+` FROM sign_in_groups ORDER BY name`)
		return err
	})
}

// SaveGroup stores a group and returns the one of that name before, whose name is empty if
// there was none.
func (s *Store) SaveGroup(ctx context.Context, g GroupRule) (before GroupRule, err error) {
	if strings.TrimSpace(g.Name) != g.Name || g.Name == "" || !isPrintable(g.Name, nameLengthMax) {
		return before, parley.Invalid("name", "Name the group as the issuer does, with at most %d printable "+
			"characters.", nameLengthMax)
	}
	return before, s.db.WriteReserved(ctx, func(t *db.Tx) error {
		if before, err = takeGroup(t, g.Name); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO sign_in_groups (`+groupColumns+`) VALUES ($1, $2, $3, $4, $5)`, g.Name,
			string(g.Role), g.Organization, g.Tier, listText(g.Models))
		return err
	})
}

// DeleteGroup removes a group and returns what it was. Its members keep what they were
// given until they sign in again.
func (s *Store) DeleteGroup(ctx context.Context, name string) (before GroupRule, err error) {
	return before, s.db.WriteReserved(ctx, func(t *db.Tx) error {
		if before, err = takeGroup(t, name); err == nil && before.Name == "" {
			err = parley.Errorf(parley.NotFound, "Group %q does not exist in the store.", clip(name))
		}
		return err
	})
}

// takeGroup removes a group, if there is one of that name, and returns it.
func takeGroup(t *db.Tx, name string) (g GroupRule, err error) {
	all, err := db.All(t, scanGroup, `DELETE FROM sign_in_groups WHERE name = $1 RETURNING `+groupColumns, name)
	if err != nil || len(all) == 0 {
		return g, err
	}
	return all[0], nil
}

package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/gateway/db"
	"parley/limit"
)

// A By is what sums are told apart by.
type By string

// What sums can be told apart by, beside [ByTag].
const (
	ByOrganization By = "organization"
	ByUser         By = "user"
	ByKey          By = "key"
	ByModel        By = "model"
	ByTier         By = "tier"
	ByBatch        By = "batch"
)

var byColumns = map[By]string{
	ByOrganization: "organization",
	ByUser:         "user_id",
	ByKey:          "key_id",
	ByModel:        "model",
	ByTier:         "tier",
	ByBatch:        "batch",
}

// A Query says which entries are summed up, and how.
type Query struct {
	// From and To bound when they ended; To is not included.
	From, To time.Time
	// Width cuts the time into buckets from From on; 0 makes one of all.
	Width time.Duration
	// By are the fields to group by.
	By []By
	// Only names the values that count, for some; an empty list counts none.
	Only map[By][]string
}

// A Sum is what the entries of a bucket used together.
type Sum struct {
	// Bucket is the number of the bucket, from 0.
	Bucket int64
	// Group has the values that the sum is of, one for each of By.
	Group                           map[By]string
	Requests, Input, Cached, Output int64
	// Unanswered of the requests used no token: they were rejected, or failed before a worker began. The tokens of
	// Estimated ones are estimates.
	Unanswered, Estimated int64
	Cost                  limit.Micros
}

// Sums adds entries up. Buckets without any are left out.
func (l *Ledger) Sums(ctx context.Context, q Query) (sums []Sum, err error) {
	query, args := q.sql(l.db.Kind())
	err = l.db.Read(ctx, func(t *db.Tx) error {
		sums, err = db.All(t, q.scan, query, args...)
		return err
	})
	return sums, err
}

// sql writes the query. Only names of ours become part of it.
func (q *Query) sql(kind db.Kind) (string, []any) {
	width := max(q.Width.Microseconds(), 1)
	if q.Width == 0 {
		width = max(q.To.Sub(q.From).Microseconds(), 1)
	}
	args := []any{db.Stamp(q.From), db.Stamp(q.To), width}
	place := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	groups := []string{"(at - $1) / $3"}
	for _, by := range q.By {
		groups = append(groups, by.column(kind, place))
	}
	var where strings.Builder
	where.WriteString("at >= $1 AND at < $2")
	for _, by := range slices.Sorted(maps.Keys(q.Only)) {
		var places []string
		for _, value := range q.Only[by] {
			places = append(places, place(value))
		}
		if len(places) == 0 {
			places = []string{"NULL"}
		}
		column := by.column(kind, place)
		if by == ByBatch {
			column = "CAST(batch AS TEXT)" // the only number
		}
		where.WriteString(" AND " + column + " IN (" + strings.Join(places, ", ") + ")")
	}
	// CAST: PostgreSQL sums integers to a decimal number.
	sum := func(column string) string { return "CAST(sum(" + column + ") AS BIGINT)" }
	list := strings.Join(groups, ", ")
	return "SELECT " + list + ", " + sum("1 - internal") + ", " + sum("input") + ", " + sum(
		"cached") + ", " + sum("output") + ", " + sum("cost_micros") + ", " + sum(
		"CASE WHEN input + output = 0 AND internal = 0 THEN 1 ELSE 0 END") + ", " + sum("estimated") +
		" FROM ledger WHERE " + where.String() + " GROUP BY " + list + " ORDER BY " + list, args
}

func (q *Query) scan(r db.Row, s *Sum) error {
	texts := make([]string, len(q.By))
	into := []any{&s.Bucket}
	for i := range texts {
		into = append(into, &texts[i])
	}
	err := r.Scan(append(into, &s.Requests, &s.Input, &s.Cached, &s.Output, &s.Cost, &s.Unanswered, &s.Estimated)...)
	s.Group = map[By]string{}
	for i, by := range q.By {
		s.Group[by] = texts[i]
	}
	return err
}

// MonthOf returns when the month of now begins, in UTC.
func MonthOf(now time.Time) time.Time {
	year, month, _ := now.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}

// Spent returns what a tenant, or one key of it if key is not empty, has
// spent in the month of now.
func (l *Ledger) Spent(ctx context.Context, organization, key string, now time.Time) (limit.Micros, error) {
	q := Query{From: MonthOf(now), To: now.Add(time.Hour), Only: map[By][]string{ByOrganization: {organization}}}
	if key != "" {
		q.Only[ByKey] = []string{key}
	}
	sums, err := l.Sums(ctx, q)
	var spent limit.Micros
	for i := range sums {
		spent += sums[i].Cost
	}
	return spent, err
}

package job

import (
	"time"

	"parley"
	"parley/gateway/bill"
	"parley/gateway/infer"
	"parley/gateway/models"
	"parley/gateway/prefix"
	"parley/gateway/record"
	"parley/gateway/revoke"
	"parley/gateway/screening"
)

// A Server is what all jobs of a server share. Its fields are set before the first job
// is made.
type Server struct {
	// Models are what is served, and Pipeline has them answer.
	Models   *models.Set
	Pipeline *infer.Pipeline
	// Tiers are what conversations of each class may hold.
	Tiers models.TierContexts
	// Objectives are what requests are promised; the last one is for all.
	Objectives parley.Objectives
	Bills      *bill.Billing
	Screens    *screening.Screener
	Records    *record.Recorder
	// Prefixes watches whether prompts keep hitting the cache.
	Prefixes *prefix.Watch
	// Revocations end jobs whose key is deleted or blocked.
	Revocations *revoke.Registry
	Salts       Salts
	// NoticeEvery is how often a client is told where it stands while it waits.
	NoticeEvery time.Duration
	Now         func() time.Time
}

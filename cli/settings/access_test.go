package settings

import (
	"os"
	"testing"
	"time"

	"parley"
	"parley/gateway/models"
	"parley/limit"
	"parley/worker/host"
)

// TestExampleTiers reads the example for tiers, and looks where its numbers go.
func TestExampleTiers(t *testing.T) {
	s, err := Gather(nil, func(string) (string, bool) { return "", false }, "../../examples/tiers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	free := &s.TenantTiers[parley.Free]
	want := limit.Limits{
		RequestsPerSecond:      2,
		RequestsPerMinute:      30,
		LightRequestsPerMinute: 600,
		InputTokensPerMinute:   300_000,
		OutputTokensPerMinute:  30_000,
		ConcurrentRequests:     2,
		MonthlyBudget:          1_000_000,
	}
	if free.Limits != want || len(free.Models) != 1 || free.Models[0] != "polly-mini" {
		t.Errorf("free gets %+v", free)
	}
	if s.TenantTiers[parley.Enterprise].Limits != (limit.Limits{}) {
		t.Errorf("enterprise gets %+v", s.TenantTiers[parley.Enterprise].Limits)
	}
	if s.Aliases["chat"] != (models.Alias{"polly-mini", "polly", "polly"}) ||
		s.Aliases["gpt-4o-mini"] != models.AliasOf("polly-mini") {
		t.Errorf("aliases %v", s.Aliases)
	}
	shares := s.HostConfig("polly", nil).Classes
	if shares != [parley.Classes]host.ClassShare{{Weight: 1, KVShare: 0.25}, {Weight: 4, KVShare: 0.75},
		{Weight: 16, KVReserve: 0.2}} {
		t.Errorf("the engine is told %+v", shares)
	}
	front := s.FrontConfig()
	if tier := front.Admission.Queue.Tiers[parley.Free]; tier.Weight != 1 || tier.WaitMax != 20*time.Second {
		t.Errorf("the queue is told %+v", tier)
	}
	if front.TierContexts[parley.Free].Tokens != 65536 || len(front.Aliases) != 3 || len(s.Models) != 2 {
		t.Errorf("%+v, %d aliases, %d models", front.TierContexts, len(front.Aliases), len(s.Models))
	}
}

// TestTenantFlags reads what flags say of tiers and aliases.
func TestTenantFlags(t *testing.T) {
	flags := Flags{}
	for i := range List {
		flags[List[i].Key] = &flagValue{of: &List[i]}
	}
	for _, set := range [][2]string{{"tiers", "pro.models=a,b"}, {"tiers", "pro.kv-share=0.5"},
		{"tiers", "pro.organisation-kv-share=0.1"}, {"tiers", "free.monthly-budget=none"},
		{"tiers", "enterprise.requests-per-second=1_000"},
		{"aliases", "gpt-4.1=a"}, {"aliases", "gpt-4.1.free=b"}} {
		if err := flags[set[0]].Set(set[1]); err != nil {
			t.Errorf("%s: %v", set[1], err)
		}
	}
	s, err := Gather(flags, os.LookupEnv, "")
	if err != nil {
		t.Fatal(err)
	}
	pro := s.TenantTiers[parley.Pro]
	if len(pro.Models) != 2 || pro.KVShare != 0.5 || s.TenantTiers[parley.Enterprise].Limits.RequestsPerSecond != 1000 {
		t.Errorf("tiers %+v", s.TenantTiers)
	}
	if got := s.HostConfig("a", nil).Classes[parley.Pro].TenantKVShare; got != 0.1 {
		t.Errorf("a tenant of the tier pro may keep %g of the engine's memory", got)
	}
	if s.Aliases["gpt-4.1"] != (models.Alias{"b", "a", "a"}) {
		t.Errorf("aliases %v", s.Aliases)
	}
	for _, bad := range [][2]string{{"tiers", "gold.weight=1"}, {"tiers", "free"}, {"tiers", "free.kv-share=2"},
		{"tiers", "free.organisation-kv-share=1.5"}, {"tiers", "free.requests-per-minute=0"},
		{"tiers", "free.tenant-kv-share=1.5"}, {"tiers", "free.weight=-1"},
		{"aliases", "=a"}, {"aliases", "a"}, {"aliases", "a="}} {
		if err := flags[bad[0]].Set(bad[1]); err == nil {
			t.Errorf("%s is taken", bad[1])
		}
	}
}

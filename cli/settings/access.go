package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley"
	"parley/cli"
	"parley/gateway/exchange"
	"parley/gateway/models"
	"parley/gateway/tenant"
	"parley/limit"
	"parley/worker/host"
)

// tenantSettings say who may call, and what each tier gets.
var tenantSettings = []Setting{
	{Key: "tls-cert", wants: "the path of a PEM file",
		Help: "serve TLS with the certificate in `FILE`, reloaded when it changes",
		set:  setText(func(s *Settings) *string { return &s.TLSCert })},
	{Key: "tls-key", wants: "the path of a PEM file", Help: "private key of --tls-cert, a `FILE`",
		set: setText(func(s *Settings) *string { return &s.TLSKey })},
	{
		Key:   "allow-origin",
		wants: "an origin such as https://chat.example.com, or *",
		many:  true,
		set:   setMany(func(s *Settings) *[]string { return &s.Origins }),
		Help: "let web pages of `ORIGIN` call the server, such as https://chat.example.com, or * for all; " +
			"repeatable (default: only its own pages)",
	},
	{
		Key:   "metrics-open",
		wants: "true or false",
		bare:  "true",
		set:   setMetricsOpen,
		Help:  "serve /metrics without a key: `true` or false (default false)",
	},
	{Key: "trusted-proxies", wants: "networks such as 10.0.0.0/8,192.0.2.7", set: setProxies,
		Help: "trust X-Forwarded-For, -Host, -Proto and Forwarded from reverse proxies in these networks, " +
			"`CIDR,...`, for the client's address in logs and the origin of pages; grants no rights"},
	{
		Key: "tiers",
		wants: "TIER.SETTING=VALUE, with a tier of free, pro or enterprise and a setting of " + strings.Join(
			tierSettingNames(), ", "),
		many: true,
		set:  setTierOf,
		Help: "configure a tier, `TIER.SETTING=VALUE`, such as free.requests-per-minute=20 or " +
			"free.models=polly-mini; repeatable (docs/keys.md)",
	},
	{
		Key:   "aliases",
		wants: "NAME=MODEL or NAME.TIER=MODEL",
		many:  true,
		set:   setAlias,
		Help:  "serve a model under an additional name, `NAME[.TIER]=MODEL`, for all tiers or for one; repeatable",
	},
}

func setMetricsOpen(s *Settings, text string) (err error) {
	s.MetricsOpen, err = strconv.ParseBool(text)
	return err
}

func setProxies(s *Settings, text string) (err error) {
	s.Proxies, err = exchange.ParseProxies(text)
	return err
}

// A tierSetting is one setting of a tier.
type tierSetting struct {
	name string
	set  func(s *Settings, class parley.Class, text string) error
}

var tierSettings = append([]tierSetting{
	{"models", func(s *Settings, class parley.Class, text string) error {
		if text == "" {
			return errBadValue
		}
		t := &s.TenantTiers[class]
		t.Models = append(t.Models, strings.Split(text, ",")...)
		return nil
	}},
	{"weight", func(s *Settings, class parley.Class, text string) error {
		return setTierWeight(s, class.String()+"="+text)
	}},
	{"kv-share", tierPart(func(t *tenant.Tier) *float64 { return &t.KVShare })},
	{"organisation-kv-share", tierPart(func(t *tenant.Tier) *float64 { return &t.TenantKVShare })},
	{"kv-reserve", tierPart(func(t *tenant.Tier) *float64 { return &t.KVReserve })},
	{"queue-wait", func(s *Settings, class parley.Class, text string) error {
		return setQueueWait(s, class.String()+"="+text)
	}},
	{"requests-per-second", tierLimit(func(l *limit.Limits) *int64 { return &l.RequestsPerSecond })},
	{"requests-per-minute", tierLimit(func(l *limit.Limits) *int64 { return &l.RequestsPerMinute })},
	{"light-requests-per-minute", tierLimit(func(l *limit.Limits) *int64 { return &l.LightRequestsPerMinute })},
	{"input-tokens-per-minute", tierLimit(func(l *limit.Limits) *int64 { return &l.InputTokensPerMinute })},
	{"output-tokens-per-minute", tierLimit(func(l *limit.Limits) *int64 { return &l.OutputTokensPerMinute })},
	{"concurrent-requests", tierLimit(func(l *limit.Limits) *int64 { return &l.ConcurrentRequests })},
	{"monthly-budget", func(s *Settings, class parley.Class, text string) error {
		return SetMoney(&s.TenantTiers[class].Limits.MonthlyBudget, text)
	}},
	{"budget-alert", func(s *Settings, class parley.Class, text string) error {
		return SetAlert(&s.TenantTiers[class].Limits.BudgetAlert, text)
	}},
}, userSettings()...)

func tierSettingNames() (names []string) {
	for _, t := range tierSettings {
		names = append(names, t.name)
	}
	return names
}

// NoLimit is how a limit of the defaults is taken off.
const NoLimit = "none"

// SetLimit reads a number of at least 1, or NoLimit.
func SetLimit(field *int64, text string) error {
	if text == NoLimit {
		*field = 0
		return nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n <= 0 {
		return errBadValue
	}
	*field = n
	return nil
}

// SetMoney reads an amount of money, or NoLimit.
func SetMoney(field *limit.Micros, text string) error {
	if text == NoLimit {
		*field = 0
		return nil
	}
	var amount limit.Micros
	if err := amount.UnmarshalText([]byte(text)); err != nil || amount <= 0 {
		return errBadValue
	}
	*field = amount
	return nil
}

// SetAlert reads a share of a budget. 0 is refused: it would not be off, but what
// the server has for all.
func SetAlert(field *limit.Share, text string) error {
	share, err := limit.ParseShare(text)
	if err != nil || share == 0 {
		return errBadValue
	}
	*field = share
	return nil
}

func tierLimit(field func(*limit.Limits) *int64) func(*Settings, parley.Class, string) error {
	return func(s *Settings, class parley.Class, text string) error {
		if err := SetLimit(field(&s.TenantTiers[class].Limits), text); err != nil {
			return err
		}
		return s.TenantTiers.Validate()
	}
}

func tierPart(field func(*tenant.Tier) *float64) func(*Settings, parley.Class, string) error {
	return func(s *Settings, class parley.Class, text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= 0 && n <= 1) {
			return errBadValue
		}
		*field(&s.TenantTiers[class]) = n
		return nil
	}
}

// formerKVShare is the name that organisation-kv-share had, which still works.
const formerKVShare = "tenant-kv-share"

// setTierOf reads TIER.SETTING=VALUE. Underscores are as good as dashes: the
// file has them.
func setTierOf(s *Settings, text string) error {
	path, value, _ := strings.Cut(text, "=")
	tier, name, _ := strings.Cut(path, ".")
	class, ok := tenant.ParseClass(tier)
	name = strings.ReplaceAll(name, "_", "-")
	if name == formerKVShare {
		name = "organisation-kv-share"
	}
	i := slices.IndexFunc(tierSettings, func(t tierSetting) bool { return t.name == name })
	if !ok || i < 0 {
		return errBadValue
	}
	return tierSettings[i].set(s, class, value)
}

// setAlias reads NAME=MODEL or NAME.TIER=MODEL. A name may have dots itself.
func setAlias(s *Settings, text string) error {
	name, model, ok := strings.Cut(text, "=")
	if !ok || name == "" || model == "" {
		return errBadValue
	}
	if s.Aliases == nil {
		s.Aliases = map[string]models.Alias{}
	}
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		if class, ok := tenant.ParseClass(name[dot+1:]); ok {
			alias := s.Aliases[name[:dot]]
			alias[class] = model
			s.Aliases[name[:dot]] = alias
			return nil
		}
	}
	s.Aliases[name] = models.AliasOf(model)
	return nil
}

// shares returns what the tiers get of each model's scheduler and memory.
func (s *Settings) shares() (shares [parley.Classes]host.ClassShare) {
	for class := range shares {
		t := &s.TenantTiers[class]
		shares[class] = host.ClassShare{
			Weight:        s.Admission.Queue.Tiers[class].Weight,
			KVShare:       t.KVShare,
			KVReserve:     t.KVReserve,
			TenantKVShare: t.TenantKVShare,
		}
	}
	return shares
}

// CheckTLS says what is wrong with the two files of TLS.
func (s *Settings) CheckTLS() error {
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return fmt.Errorf("--tls-cert and --tls-key belong together: set both or neither: %w", cli.ErrUsage)
	}
	if s.Worker.ClientCA != "" && s.TLSCert == "" {
		return fmt.Errorf("--client-ca needs TLS: set --tls-cert and --tls-key as well: %w", cli.ErrUsage)
	}
	return nil
}

// CheckTierModels says which models of a tier are not served: a mistyped name
// must not leave a tier without any.
func (s *Settings) CheckTierModels(served []models.Config) error {
	var names []string
	for i := range served {
		names = append(names, served[i].ID)
	}
	for name := range s.Aliases {
		names = append(names, name)
	}
	for class := range s.TenantTiers {
		for _, m := range s.TenantTiers[class].Models {
			if !slices.Contains(names, m) {
				return fmt.Errorf("the tier %s lists the model %q, which is not served: the models and aliases are %s",
					parley.Class(class), m, strings.Join(names, ", "))
			}
		}
	}
	return nil
}

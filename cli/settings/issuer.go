package settings

import (
	"strings"

	"parley/gateway/accounts"
)

// issuerSettings say who vouches for people who sign in; docs/accounts.md describes them.
var issuerSettings = []Setting{
	{Key: "oidc-issuer", wants: "an address such as https://accounts.example.com",
		set: setText(func(s *Settings) *string { return &s.Issuer.URL }),
		Help: "let people sign in with the OpenID Connect issuer at `URL`; register this server there with the " +
			"redirect address https://HOST/session/callback (docs/accounts.md)"},
	{Key: "oidc-client-id", wants: "the client id that the issuer gave",
		set:  setText(func(s *Settings) *string { return &s.Issuer.ClientID }),
		Help: "identify this server to --oidc-issuer as `ID`"},
	{
		Key:    "oidc-client-secret",
		wants:  "the client secret that the issuer gave",
		secret: true,
		set:    setText(func(s *Settings) *string { return &s.Issuer.ClientSecret }),
		Help:   "authenticate this server at --oidc-issuer with `SECRET`; leave it out for a public client",
	},
	{Key: "oidc-name", wants: "a name", set: setText(func(s *Settings) *string { return &s.Issuer.Name }),
		Help: "call the issuer `NAME` on the sign-in page (default: its host)"},
	{Key: "oidc-scopes", wants: "names such as email,profile,groups",
		set: setList(func(s *Settings) *[]string { return &s.Issuer.Scopes }),
		Help: "ask the issuer for these scopes in addition to openid, `NAME,...` (default email,profile, and groups " +
			"with --oidc-groups)"},
	{Key: "oidc-groups-claim", wants: "the name of a claim",
		set:  setText(func(s *Settings) *string { return &s.Issuer.GroupsClaim }),
		Help: "read people's groups from the claim `NAME` of ID tokens (default groups)"},
	{
		Key:   "oidc-groups",
		many:  true,
		set:   setGroup,
		wants: "GROUP.SETTING=VALUE with a setting of organisation, role, tier, models",
		Help: "give members of a group an organisation, a role, a tier or models at each sign-in, " +
			"`GROUP.SETTING=VALUE`, such as staff.role=org-admin or staff.organisation=acme; repeatable; the People " +
			"page sets others",
	},
	{Key: "oidc-domains", wants: "domains such as example.com,example.org",
		set:  setList(func(s *Settings) *[]string { return &s.Issuer.Domains }),
		Help: "accept only email addresses of these domains from the issuer, `DOMAIN,...` (default all)"},
	{Key: "oidc-unknown", wants: "create or refuse", set: setUnknown,
		Help: "when a person signs in without an account, an invitation or a group of --oidc-groups: `create` an " +
			"account, or refuse (default refuse)"},
	{Key: "oidc-unverified", wants: "accept or refuse", set: setUnverified,
		Help: "`accept` or refuse email addresses that the issuer has not verified (default refuse)"},
}

// setList reads names with commas between them.
func setList(field func(*Settings) *[]string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		var all []string
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name == "" {
				return errBadValue
			}
			all = append(all, name)
		}
		*field(s) = all
		return nil
	}
}

// groupSettings are what a group can give.
var groupSettings = map[string]func(*accounts.GroupRule, string) error{
	"organisation": setGroupOrganization,
	"organization": setGroupOrganization,
	"role": func(r *accounts.GroupRule, text string) (err error) {
		r.Role, err = accounts.ParseRole(text)
		return err
	},
	"tier": func(r *accounts.GroupRule, text string) error {
		r.Tier = text
		return nil
	},
	"models": func(r *accounts.GroupRule, text string) error {
		r.Models = append(r.Models, strings.Split(text, ",")...)
		return nil
	},
}

func setGroupOrganization(r *accounts.GroupRule, text string) error {
	r.Organization = text
	return nil
}

// setGroup reads GROUP.SETTING=VALUE. A group may have dots and equals signs itself.
func setGroup(s *Settings, text string) error {
	at, name := -1, ""
	for setting := range groupSettings {
		if i := strings.Index(text, "."+setting+"="); i > 0 && (at < 0 || i < at) {
			at, name = i, setting
		}
	}
	if at < 0 {
		return errBadValue
	}
	group, value := text[:at], text[at+len(name)+2:]
	if value == "" {
		return errBadValue
	}
	all := s.Issuer.Groups
	for i := range all {
		if all[i].Name == group {
			return groupSettings[name](&all[i], value)
		}
	}
	s.Issuer.Groups = append(all, accounts.GroupRule{Name: group})
	return groupSettings[name](&s.Issuer.Groups[len(all)], value)
}

func setUnknown(s *Settings, text string) error {
	s.Issuer.CreateUnknown = text == "create"
	return oneOf(text, "create", "refuse")
}

func setUnverified(s *Settings, text string) error {
	s.Issuer.AcceptUnverified = text == "accept"
	return oneOf(text, "accept", "refuse")
}

func oneOf(text, a, b string) error {
	if text != a && text != b {
		return errBadValue
	}
	return nil
}

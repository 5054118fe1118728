package safety

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
)

// An Action is what follows from a finding.
type Action string

// The actions, mildest first. Off does not even look, Flag notes the finding,
// Redact puts a placeholder in its place, Block refuses the request or ends
// the answer.
const (
	Off    Action = "off"
	Flag   Action = "flag"
	Redact Action = "redact"
	Block  Action = "block"
)

var actions = []Action{Off, Flag, Redact, Block}

// Sternness orders actions: the greater, the more follows.
func (a Action) Sternness() int { return slices.Index(actions, a) }

// A Rule says what follows from findings of a category. In a file it is an
// action, or a mapping that also has a threshold.
type Rule struct {
	Action Action `yaml:"action"`
	// Threshold is the least score that counts; default 0.5.
	Threshold float32 `yaml:"threshold"`
	// Roles are where in a prompt the category is looked for: system, user,
	// assistant, tool, definition or all. Default: secrets and pii in all, the
	// rest in user and tool.
	Roles []string `yaml:"roles"`
	// WhenDown says what follows if a moderator that was asked for this category
	// does not answer: "open" continues without it (default), "closed" rejects.
	WhenDown string `yaml:"when_down"`
}

// holdsFor reports whether findings of a category count in a text from o.
func (r *Rule) holdsFor(c Category, o Origin) bool {
	switch {
	case r.Action == "" || r.Action == Off:
		return false
	case o == FromModel || slices.Contains(r.Roles, everyRole):
		return true
	case len(r.Roles) > 0:
		return slices.Contains(r.Roles, o.String())
	}
	return c == Secrets || c == PII || o == FromUser || o == FromTool
}

// everyRole stands for all roles in a policy.
const everyRole = "all"

// wrongRole returns the first name that is not a role, or nothing.
func wrongRole(roles []string) string {
	for _, role := range roles {
		if role != everyRole && !slices.Contains(promptRoles, role) {
			return role
		}
	}
	return ""
}

// UnmarshalYAML reads "block" as well as {action: block, threshold: 0.8}.
func (r *Rule) UnmarshalYAML(data []byte) error {
	var action string
	if yaml.Unmarshal(data, &action) == nil {
		r.Action = Action(action)
		return nil
	}
	type plain Rule
	return yaml.UnmarshalWithOptions(data, (*plain)(r), yaml.Strict())
}

// Rules are the rules of one direction, by the name of the category.
type Rules map[string]Rule

// A Policy says what follows from what is found in prompts and in answers.
type Policy struct {
	Input  Rules `yaml:"input"`
	Output Rules `yaml:"output"`
	// Kinds are the kinds of personal data that count; default: those that have
	// a form, from "email" to "credit_card". "person", "location", "address",
	// "organization" and "job_title" are found by their context.
	Kinds []string `yaml:"kinds"`
	// Restore puts what was redacted from a prompt back into its answer.
	Restore *bool `yaml:"restore"`
	// Window bounds how many tokens of an answer are held back, 8 to 64; default 32.
	Window int `yaml:"window"`
	// Refusal is what users read in the place of what was blocked.
	Refusal string `yaml:"refusal"`
	// Moderators are asked, too, by name.
	Moderators []string `yaml:"moderators"`
}

// A Moderator is a judge outside: an endpoint in the shape of /v1/moderations,
// or a model that is served here.
type Moderator struct {
	// URL is the endpoint; Model the model that it is asked for. Without a URL
	// the model is one of this server.
	URL   string `yaml:"url"`
	Model string `yaml:"model"`
	// KeyFile holds the key that is sent as a bearer token.
	KeyFile string `yaml:"key_file"`
	// Timeout bounds the wait for it; default 2s.
	Timeout time.Duration `yaml:"timeout"`
	// Categories are what it is asked for; default: all kinds of harm, and injection.
	Categories []string `yaml:"categories"`
	// Output has it judge answers that are not streamed, too.
	Output bool `yaml:"output"`
}

// A Book holds the policies of a server: the default, and what tenants and
// models have in its place.
type Book struct {
	Default    Policy               `yaml:"default"`
	Models     map[string]Policy    `yaml:"models"`
	Tenants    map[string]Policy    `yaml:"organisations"`
	Moderators map[string]Moderator `yaml:"moderators"`
	// Older is the former name of what organisations have. Parsed books have none.
	Older map[string]Policy `yaml:"tenants"`
	// LogText has the text of findings logged and kept with events. It is off
	// unless asked for: logs outlive what people said in confidence.
	LogText bool `yaml:"log_text"`
}

// formKinds are the kinds of personal data that count unless others are named.
var formKinds = []string{KindEmail, KindPhone, KindCard, KindIBAN, KindSSN, KindIP, KindLicense, KindWallet}

// nameKinds need the tagger.
var nameKinds = []string{KindPerson, KindPlace, KindAddress, KindCompany, KindTitle, KindLicense}

var allKinds = append(slices.Clone(formKinds), KindURL, KindDate, KindPrefix, KindPerson, KindPlace, KindAddress,
	KindCompany, KindTitle)

// DefaultBook flags and never blocks: what to block is the operator's decision.
func DefaultBook() *Book {
	flag := Rules{}
	for _, c := range Categories() {
		flag[c.String()] = Rule{Action: Flag}
	}
	return &Book{Default: Policy{Input: flag, Output: Rules{}}}
}

const (
	windowDefault   = 32
	windowMin       = 8
	windowMax       = 64
	refusalDefault  = "I can't help with that."
	timeoutDefault  = 2 * time.Second
	thresholdUsual  = 0.5
	closedWhenDown  = "closed"
	openWhenDown    = "open"
	moderatorsMax   = 8
	policyBytesMax  = 1 << 20
	refusalBytesMax = 4 << 10
)

// ParseBook reads policies: a YAML document with the key "safety".
func ParseBook(data []byte) (*Book, error) {
	if len(data) > policyBytesMax {
		return nil, fmt.Errorf("the safety policy has %d bytes: at most %d are read", len(data), policyBytesMax)
	}
	var file struct {
		Safety *Book `yaml:"safety"`
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("the safety policy cannot be read: %w", err)
	}
	if file.Safety == nil {
		return nil, errors.New("the safety policy has no key 'safety:' at its top")
	}
	if err := file.Safety.renew(); err != nil {
		return nil, err
	}
	return file.Safety, file.Safety.validate()
}

// renew moves the policies under the former key to the one that replaced it.
func (b *Book) renew() error {
	for name, p := range b.Older {
		if _, twice := b.Tenants[name]; twice {
			return fmt.Errorf("organisations.%s and tenants.%s are the same: tenants is the former name of "+
				"organisations; keep one of the two", name, name)
		}
		if b.Tenants == nil {
			b.Tenants = map[string]Policy{}
		}
		b.Tenants[name] = p
	}
	b.Older = nil
	return nil
}

func (b *Book) validate() error {
	problems := []error{b.check("default", b.Default)}
	for name, p := range b.Models {
		problems = append(problems, b.check("models."+name, p))
	}
	for name, p := range b.Tenants {
		problems = append(problems, b.check("organisations."+name, p))
	}
	for name, m := range b.Moderators {
		if m.URL == "" && m.Model == "" {
			problems = append(problems, fmt.Errorf("moderators.%s: give it a url or the model of this server", name))
		}
		for _, c := range m.Categories {
			if _, err := ParseCategory(c); err != nil {
				problems = append(problems, fmt.Errorf("moderators.%s: %w", name, err))
			}
		}
	}
	return errors.Join(problems...)
}

func (b *Book) check(where string, p Policy) error {
	var problems []error
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(where+": "+format, args...))
	}
	for _, rules := range []Rules{p.Input, p.Output} {
		for name, r := range rules {
			c, err := ParseCategory(name)
			switch {
			case err != nil:
				wrong("%w", err)
			case !slices.Contains(actions, r.Action):
				wrong("%s has the action %q: use one of off, flag, redact, block", name, r.Action)
			case r.Action == Redact && c != Secrets && c != PII:
				wrong("%s cannot be redacted, only secrets and pii can: use flag or block", name)
			case r.Threshold < 0 || r.Threshold > 1:
				wrong("%s has the threshold %v: it must be from 0 to 1", name, r.Threshold)
			case len(r.Roles) > 0 && wrongRole(r.Roles) != "":
				wrong("%s has the role %q: use some of %v, or all", name, wrongRole(r.Roles), promptRoles)
			case r.WhenDown != "" && r.WhenDown != openWhenDown && r.WhenDown != closedWhenDown:
				wrong("%s has when_down %q: use open or closed", name, r.WhenDown)
			}
		}
	}
	for _, k := range p.Kinds {
		if !slices.Contains(allKinds, k) {
			wrong("there is no kind of personal data %q: use some of %v", k, allKinds)
		}
	}
	if p.Window != 0 && (p.Window < windowMin || p.Window > windowMax) {
		wrong("the window is %d tokens: it must be from %d to %d", p.Window, windowMin, windowMax)
	}
	if len(p.Refusal) > refusalBytesMax {
		wrong("the refusal has %d bytes: at most %d", len(p.Refusal), refusalBytesMax)
	}
	if len(p.Moderators) > moderatorsMax {
		wrong("%d moderators: at most %d", len(p.Moderators), moderatorsMax)
	}
	for _, name := range p.Moderators {
		if _, ok := b.Moderators[name]; !ok {
			wrong("there is no moderator %q: describe it under moderators", name)
		}
	}
	return errors.Join(problems...)
}

// A Ruling is the policy that holds for one request.
type Ruling struct {
	Input, Output [categories]Rule
	Kinds         []string
	Restore       bool
	Window        int
	Refusal       string
	Moderators    []string
	LogText       bool
	// known are the moderators as they were described when the ruling was made:
	// a request that began under one policy ends under it.
	known map[string]Moderator
}

// For returns what holds for a tenant at a model: the default, what the model
// has in its place, and what the tenant has in the place of both.
func (b *Book) For(tenant, model string) *Ruling {
	r := &Ruling{
		Kinds:   formKinds,
		Window:  windowDefault,
		Refusal: refusalDefault,
		LogText: b.LogText,
		known:   b.Moderators,
	}
	for _, p := range []Policy{b.Default, b.Models[model], b.Tenants[tenant]} {
		r.lay(p)
	}
	return r
}

// lay puts a policy over what holds so far.
func (r *Ruling) lay(p Policy) {
	layRules(&r.Input, p.Input)
	layRules(&r.Output, p.Output)
	if p.Kinds != nil {
		r.Kinds = p.Kinds
	}
	if p.Restore != nil {
		r.Restore = *p.Restore
	}
	if p.Window != 0 {
		r.Window = p.Window
	}
	if p.Refusal != "" {
		r.Refusal = p.Refusal
	}
	if p.Moderators != nil {
		r.Moderators = p.Moderators
	}
}

func layRules(to *[categories]Rule, from Rules) {
	for name, rule := range from {
		if c, err := ParseCategory(name); err == nil {
			if rule.Threshold == 0 {
				rule.Threshold = thresholdUsual
			}
			to[c] = rule
		}
	}
}

// looks reports whether any category is looked for.
func looks(rules *[categories]Rule) bool {
	for _, r := range rules {
		if r.Action != "" && r.Action != Off {
			return true
		}
	}
	return false
}

// acts reports whether anything that is found changes an answer.
func acts(rules *[categories]Rule) bool {
	for _, r := range rules {
		if r.Action == Redact || r.Action == Block {
			return true
		}
	}
	return false
}

// LooksAtInput reports whether prompts are screened at all.
func (r *Ruling) LooksAtInput() bool { return looks(&r.Input) }

// LooksAtOutput reports whether answers are screened at all.
func (r *Ruling) LooksAtOutput() bool { return looks(&r.Output) }

// names reports whether the tagger is needed.
func (r *Ruling) names(rules *[categories]Rule) bool {
	if a := rules[PII].Action; a == "" || a == Off {
		return false
	}
	return slices.ContainsFunc(r.Kinds, func(k string) bool {
		return slices.Contains(nameKinds, k) && k != KindLicense
	})
}

// A Decision is a finding and what follows from it.
type Decision struct {
	Finding
	Action Action `json:"action"`
}

// decide returns what follows from a verdict on a text from o, and the sternest
// action.
func (r *Ruling) decide(rules *[categories]Rule, v *Verdict, o Origin) (list []Decision, sternest Action) {
	sternest = Off
	for _, f := range v.Findings {
		rule := rules[f.Category]
		if !rule.holdsFor(f.Category, o) || f.Score < rule.Threshold ||
			f.Category == PII && !slices.Contains(r.Kinds, f.Kind) {
			continue
		}
		list = append(list, Decision{f, rule.Action})
		if slices.Index(actions, rule.Action) > slices.Index(actions, sternest) {
			sternest = rule.Action
		}
	}
	return list, sternest
}

// DecideInput decides what follows from what was found in a part of a prompt.
func (r *Ruling) DecideInput(v *Verdict, o Origin) ([]Decision, Action) {
	return r.decide(&r.Input, v, o)
}

// DecideOutput decides what follows from what was found in an answer.
func (r *Ruling) DecideOutput(v *Verdict, _ Origin) ([]Decision, Action) {
	return r.decide(&r.Output, v, FromModel)
}

// LooksAt reports whether any category is looked for in the part of a prompt that
// comes from o.
func (r *Ruling) LooksAt(o Origin) bool {
	for c := range r.Input {
		if r.Input[c].holdsFor(Category(c), o) {
			return true
		}
	}
	return false
}

// AsksOf reports whether moderators are asked about the part of a prompt that
// comes from o: about users and tools always, about others for categories whose
// rules name them.
func (r *Ruling) AsksOf(o Origin) bool {
	if len(r.Moderators) == 0 || o == FromUser || o == FromTool {
		return len(r.Moderators) > 0
	}
	for _, name := range r.Moderators {
		m := r.known[name]
		for c := range r.Input {
			rule := &r.Input[c]
			if m.covers(Category(c)) && len(rule.Roles) > 0 && rule.holdsFor(Category(c), o) {
				return true
			}
		}
	}
	return false
}

// AsksOfOutput reports whether a moderator judges answers that are not streamed.
func (r *Ruling) AsksOfOutput() bool {
	return r.LooksAtOutput() && slices.ContainsFunc(r.Moderators, func(name string) bool {
		return r.known[name].Output
	})
}

// InputNames reports whether names are looked for in prompts.
func (r *Ruling) InputNames() bool { return r.names(&r.Input) }

// ClosedWithout reports whether a text is to be refused that a moderator was to
// judge and did not: one of the categories it is asked for is closed then.
func (r *Ruling) ClosedWithout(moderator string, output bool) bool {
	rules := &r.Input
	if output {
		rules = &r.Output
	}
	m := r.known[moderator]
	for _, c := range Categories() {
		if m.covers(c) && rules[c].WhenDown == closedWhenDown {
			return true
		}
	}
	return false
}

// covers reports whether a moderator is asked for a category: for all that
// takes judgement, if its description names none.
func (m *Moderator) covers(c Category) bool {
	return len(m.Categories) == 0 && c <= Injection || slices.Contains(m.Categories, c.String())
}

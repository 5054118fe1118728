package settings

import (
	"log/slog"
	"net/netip"
	"time"

	"parley"
	"parley/cli"
	"parley/compute"
	"parley/compute/cpu"
	"parley/gateway"
	"parley/gateway/infer"
	"parley/gateway/issuer"
	"parley/gateway/job"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/ops"
	"parley/gateway/tenant"
	"parley/limit"
)

// Settings are the settings of a server. Each one comes from a flag, else
// from an environment variable, else from the configuration file, else it has
// the default that defaultSettings gives it.
type Settings struct {
	Server
	Engine
	Objectives
	Overload
	Access
	Bounds
	Fleet
	Economy Economy
	Worker  Worker
	// Collector is where traces and the log are sent.
	Collector Collector
	// SafetyPolicy is the file that says what is allowed; empty flags only.
	SafetyPolicy string
	Origin
}

// An Origin is where settings come from.
type Origin struct {
	// All are the settings with what was given for them, without secrets.
	All []ops.Setting
	// Warning is what the log says of where the settings come from.
	Warning string
}

// A Server is about the process: where it listens, keeps data and logs.
type Server struct {
	Addr  string
	Data  string
	Store string // empty: a file in data
	// Titles: the model writes titles for conversations.
	Titles bool
	// AuditKeep is how long the audit log keeps entries; 0 is for ever.
	AuditKeep time.Duration
	// LogAddresses: the logs name the addresses of clients.
	LogAddresses bool
	Tiers        models.TierContexts
	Models       []Model
	Drain        time.Duration
	// KeepAlive is how long an idle model of the model folder stays in memory.
	KeepAlive time.Duration
	LogFormat string
	LogLevel  slog.Level
}

// A Model is a model to serve; an empty name means the file's own.
type Model struct{ Name, Path string }

// An Engine is how models are computed.
type Engine struct {
	KVTokens   int
	KVType     compute.KVType
	KVHost     int64 // bytes
	KVDisk     int64 // bytes
	KVStore    KVStore
	Context    int
	Seqs       int
	StepTokens int
	Target     time.Duration
	Background time.Duration
	Speculate  bool
	Draft      string
	Threads    int
	CPU        string
	Numerics   cpu.Numerics
	Device     string
	RoundF8    bool // of weights
}

// An Objectives is what users are promised.
type Objectives struct {
	// SLO is promised to all requests that no other objective selects.
	SLO     parley.Objective
	Targets parley.Objectives
}

// An Overload is what keeps a server serving when more is asked of it than it
// can do, and which answers it gives to more than one client.
type Overload struct {
	Admission  infer.Admission
	Share      infer.Sharing
	ShareLocal bool
}

// An Access is who may call, and what each tier gets.
type Access struct {
	TLSCert, TLSKey string
	// TenantTiers are what each tier gets, aliases other names for models.
	TenantTiers tenant.Tiers
	Aliases     map[string]models.Alias
	Origins     []string
	MetricsOpen bool
	// Issuer vouches for people who sign in.
	Issuer issuer.Config
	// Proxies are the networks of reverse proxies whose headers are believed.
	Proxies []netip.Prefix
}

// A Bounds bounds what requests take of memory, and how long what is stored is
// kept.
type Bounds struct {
	// BodyTotal and bodyPerKey bound request bodies in memory, socketsPerKey connections.
	BodyTotal, BodyPerKey int64
	SocketsPerKey         int
	// Retention and keepFiles are how long what is stored is kept.
	Retention gateway.Retention
	KeepFiles time.Duration
}

// Default returns the default settings of a server.
func Default() *Settings {
	s := &Settings{}
	s.Addr, s.Data, s.Drain = "127.0.0.1:8080", cli.DataDir(), 30*time.Second
	s.LogFormat, s.Titles, s.LogAddresses = "text", true, true
	s.Engine = Engine{Draft: DraftAuto, Speculate: true, KVType: compute.KVBF16}
	s.SLO = parley.Objective{SLO: parley.DefaultSLO()}
	s.Tiers, s.TenantTiers = models.DefaultTierContexts(), tenant.DefaultTiers()
	s.Economy.Alert = limit.AlertDefault
	return s
}

// An Economy is what answers cost and where the use of limits is kept.
type Economy struct {
	Prices   ledger.Prices
	Redis    string
	Gateways int
	// Alert is the share of a budget from which on it is told that it will soon be
	// spent, hook where that is posted to.
	Alert limit.Share
	Hook  string
}

// The values of the draft setting beside names and paths.
const (
	DraftAuto = "auto"
	DraftOff  = "off"
)

// Services are other services whose models are offered.
type Services struct {
	Upstreams []UpstreamConfig
	// Fallbacks are asked where a model does not answer.
	Fallbacks map[string]models.Fallback
}

// Fleet are what they set.
type Fleet struct {
	Services
	// WorkerCA, workerClientCert and workerClientKey are files for TLS with workers.
	WorkerCA, WorkerClientCert, WorkerClientKey string

	Workers       []PoolWorker
	Pools         []PoolConfig
	WorkerKey     string
	JoinToken     string // of workers
	OperateToken  string // of operators
	JoinNetworks  []netip.Prefix
	JoinKinds     []string
	HedgeAfter    time.Duration
	KVTransfer    KVTransfer
	SaltKey       []byte
	PublicPrompts []string
	CacheScope    job.CacheScope
}

// A KVTransfer says whether workers fetch blocks from each other, and for how long one that has
// come does so before it gets requests: 0 means the default, less than 0 not at all.
type KVTransfer struct {
	Off    bool
	WarmUp time.Duration
}

// A PoolConfig is a pool as the file describes it.
type PoolConfig struct {
	Name    string       `yaml:"name"`
	Purpose string       `yaml:"purpose"`
	Models  []string     `yaml:"models"`
	Tiers   []string     `yaml:"tiers"`
	Payers  []string     `yaml:"payers"`
	Workers []PoolWorker `yaml:"workers"`
}

// A PoolWorker is a worker, or where some are found. Exactly one of the first
// fields is set.
type PoolWorker struct {
	InProcess  bool        `yaml:"in_process"`
	URL        string      `yaml:"url"`
	File       string      `yaml:"file"`
	DNS        string      `yaml:"dns"`
	Kubernetes *Kubernetes `yaml:"kubernetes"`
	Register   bool        `yaml:"register"`

	Name   string            `yaml:"name"`
	Kind   string            `yaml:"kind"`
	Role   parley.WorkerRole `yaml:"role"`
	Model  string            `yaml:"model"`
	Models map[string]string `yaml:"models"`
	Key    string            `yaml:"key"`
	// KeyFile holds the key instead.
	KeyFile string `yaml:"key_file"`
	Events  string `yaml:"events"`
	Replay  string `yaml:"replay"`
	// Networks and Kinds are those of workers that may register here; empty means those
	// of all pools.
	Networks []string `yaml:"networks"`
	Kinds    []string `yaml:"kinds"`

	networks []netip.Prefix
}

// Kubernetes says which endpoints of a cluster are workers.
type Kubernetes struct {
	Service   string `yaml:"service"`
	Namespace string `yaml:"namespace"`
	Port      string `yaml:"port"`
	Scheme    string `yaml:"scheme"`
	API       string `yaml:"api"`
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`
}

// Worker are the settings that only a worker has.
type Worker struct {
	Pool string
	Role parley.WorkerRole
	// Events and replay are addresses of ZMQ sockets, empty for none; eventTokens has
	// events carry token ids.
	Events, Replay, Topic string
	EventTokens           bool
	// Register are the gateways that the worker registers at, and advertise is where
	// they reach it.
	Register  []string
	Advertise string
	// ClientCA has signed the certificates that gateways must show, gatewayCA those of
	// gateways to register at; empty for none and for what the system trusts.
	ClientCA, GatewayCA string
}

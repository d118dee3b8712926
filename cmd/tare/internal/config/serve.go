package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Serve are the options of tare serve.
type Serve struct {
	section
	ConfigFile string

	Gateway gateway.Options `json:"-"` // those that are options as they are; the wiring sets the others, functions among them

	Listen          Address
	Backend         Address
	Control         ControlURL // Addr is "" if not set
	Copies          ControlURL // the same
	Explain         OnOff
	ServerCounts    OnOff
	AttentionLoad   float64
	Standby         Address // "" when there is none
	StandbyAccounts string  // file

	Pool                   PoolMode
	PoolAccounts           string // file
	PoolLearn              bool   // accounts besides those of the file
	PoolMax, PoolMin       int
	PoolDepth              int           // statements in flight per connection
	PoolStatements         int           // prepared, per connection
	PoolLifetime, PoolIdle time.Duration // 0: no limit
	PoolWait               time.Duration

	TLSCert, TLSKey string // files; "": a certificate created at start
	TLSClientCA     string // file
	BackendTLS      mysqlconn.TLSMode
	BackendTLSCA    string // file; "": the system's authorities
	BackendKey      ServerKey
	ControlTLS      *mysqlconn.TLSMode // nil: BackendTLS
	CopiesTLS       *mysqlconn.TLSMode // nil: BackendTLS
	CopiesKey       ServerKey

	PlanCacheBytes   Bytes
	CallSampleBytes  Bytes           // 0: no sample
	Events           markers.Options `json:"-"` // of which Bytes is an option
	TagLabels        []string
	TagValues        int
	ReturnIdleMemory time.Duration // 0: never

	TracesURL string // of an OTLP receiver; "": none

	Server

	History     History
	Rules       []Rule // nil if the file has no such list
	RulesDryRun bool

	again func() (*Serve, error) // repeats Load with the same flags and environment; a func prints no secrets
}

// PoolMode is the use of connections to the backend by sessions.
type PoolMode string

// The modes by their names.
const (
	PoolSession     PoolMode = "session"
	PoolTransaction PoolMode = "transaction"
)

// OnOff is the mode of a part that can be switched off.
type OnOff string

// The modes by their names.
const (
	On  OnOff = "on"
	Off OnOff = "off"
)

// NewServe returns the options of tare serve with their defaults.
func NewServe() *Serve {
	c := &Serve{}
	s := newSet("serve", &c.ConfigFile)
	s.Address(&c.Listen, "listen", "127.0.0.1:3316", "address for MySQL clients")
	s.Backend(&c.Backend, "backend", "mysql://127.0.0.1:3306", "MySQL server behind the gateway")
	s.OptionalAddress(&c.HTTP, "http", "127.0.0.1:8316", "address for pages, metrics and health; off for none")
	s.in("Accounts on servers")
	s.Control(&c.Control, "control", "account on the backend that may KILL statements of disconnected clients; /-/ready logs in with it")
	Enum(s, &c.Explain, "explain", "EXPLAIN the statements with most load by the --control account; requires SELECT on their tables", On, Off)
	Enum(s, &c.ServerCounts, "server-counts", "read the server's counts per statement and table by the --control account; requires SELECT on performance_schema and the tables", On, Off)
	s.in("Pages")
	declare(s, &c.AttentionLoad, Option{
		Name: "attention-load", Kind: "number", Default: "0.05",
		Help: "load (concurrent calls) that a statement must add, or a new one have, to need attention; 0: any",
	}, parseNumber, formatNumber)
	s.in("Accounts on servers")
	s.Control(&c.Copies, "copies", "account on the target of copies, with SELECT on _tare, for the Copies page")
	s.OptionalBackend(&c.Standby, "standby", "second MySQL server, to which sessions can be switched, and back")
	s.String(&c.StandbyAccounts, "standby-accounts", "file", "", "accounts for logins at the standby: YAML, a user and password per line; mode 0600")
	s.in("Shared connections")
	Enum(s, &c.Pool, "pool", "connections to the backend: session: one per client; transaction: those of the users in --pool-accounts or of --pool-learn are shared between transactions", PoolSession, PoolTransaction)
	s.String(&c.PoolAccounts, "pool-accounts", "file", "", "accounts whose clients share connections: YAML, a user and password per line; mode 0600")
	s.Bool(&c.PoolLearn, "pool-learn", "other users' clients share connections after a login over TLS; passwords are in memory only")
	s.IntUpTo(&c.PoolMax, "pool-max", "8", 1, 10_000, "shared connections per user")
	s.IntUpTo(&c.PoolMin, "pool-min", "1", 0, 10_000, "shared connections per user that stay open while they are idle")
	s.IntUpTo(&c.PoolDepth, "pool-depth", "1", 1, 64, "short reads of different clients in flight on one shared connection when none is idle")
	s.IntUpTo(&c.PoolStatements, "pool-statements", "100", 1, 10_000, "prepared statements per shared connection; the server's max_prepared_stmt_count is for all connections")
	s.Duration(&c.PoolLifetime, "pool-lifetime", "1h", "shared connections are closed after this long; less than the server's wait_timeout; 0: never")
	s.Duration(&c.PoolIdle, "pool-idle", "5m", "shared connections above --pool-min are closed when unused for this long; 0: never")
	s.Duration(&c.PoolWait, "pool-wait", "10s", "time limit for a command to get a shared connection")
	s.in("")
	s.String(&c.DataDir, "data-dir", "dir", "", "directory for local files; when empty $STATE_DIRECTORY, $XDG_STATE_HOME/tare or ~/.local/state/tare")
	s.in("TLS")
	s.String(&c.TLSCert, "tls-cert", "file", "", "certificate for clients (PEM); when empty, a self-signed one is created")
	s.String(&c.TLSKey, "tls-key", "file", "", "key of --tls-cert (PEM)")
	declareWords(s, &c.Gateway.ClientTLS, "client-tls", "TLS of clients: verify requires a certificate of --tls-client-ca; auto is required if --backend-tls requires TLS, otherwise preferred",
		word[gateway.ClientTLSMode]{"auto", ""}, word[gateway.ClientTLSMode]{"off", gateway.ClientTLSOff}, word[gateway.ClientTLSMode]{"preferred", gateway.ClientTLSPreferred},
		word[gateway.ClientTLSMode]{"required", gateway.ClientTLSRequired}, word[gateway.ClientTLSMode]{"verify", gateway.ClientTLSVerify})
	s.String(&c.TLSClientCA, "tls-client-ca", "file", "", "CA certificates of clients (PEM), for --client-tls verify")
	declareWords(s, &c.BackendTLS, "backend-tls", "TLS towards the backend",
		word[mysqlconn.TLSMode]{"mirror", mysqlconn.TLSPreferred}, word[mysqlconn.TLSMode]{"off", mysqlconn.TLSDisabled}, word[mysqlconn.TLSMode]{"required", mysqlconn.TLSRequired},
		word[mysqlconn.TLSMode]{"verify-ca", mysqlconn.TLSVerifyCA}, word[mysqlconn.TLSMode]{"verify-identity", mysqlconn.TLSVerifyIdentity})
	s.String(&c.BackendTLSCA, "backend-tls-ca", "file", "", "CA certificates for the backend and the target of --copies (PEM); the system's when empty")
	c.BackendKey.declare(s, "backend")
	sideTLS(s, &c.ControlTLS, "control-tls", "TLS towards the backend with the account of --control")
	sideTLS(s, &c.CopiesTLS, "copies-tls", "TLS towards the target of --copies")
	c.CopiesKey.declare(s, "copies")
	s.in("Memory and CPU")
	declareBytes(s, &c.PlanCacheBytes, "plan-cache-bytes", "32MiB", 1<<20, "heap bytes of the plan cache")
	declareBytes(s, &c.Gateway.StatementMemory, "statement-memory", "1MiB", 16<<10, "statements up to this size are buffered; longer ones stream")
	s.in("Pages")
	declareBytes(s, &c.CallSampleBytes, "call-sample-bytes", "8MiB", 0, "memory for a sample of recent calls, of about half an hour with 8MiB; 0: none")
	declareBytesUpTo(s, &c.Events.Bytes, "events-bytes", "1MiB", markers.MinBytes, markers.MaxBytes, "memory for events, and twice as much in --data-dir; the oldest are removed")
	s.Lines(&c.TagLabels, "tag-labels", "key", "sqlcommenter tag whose values become labels of tare_tag_queries_total in /metrics and the history; up to 8 times")
	s.IntUpTo(&c.TagValues, "tag-values", "100", 1, calls.MaxTagValues, "values of each of --tag-labels; further ones count as \"other\"")
	s.in("Limits of connections")
	s.Int(&c.Gateway.MaxConnections, "max-connections", "4096", 0, "connections of all clients; 0: no limit")
	s.Int(&c.Gateway.MaxUserConnections, "max-user-connections", "0", 0, "connections per user; 0: no limit")
	s.Int(&c.Gateway.MaxUnauthenticated, "max-unauthenticated", "1024", 0, "connections that are not logged in; 0: no limit")
	s.Int(&c.Gateway.MaxUnauthenticatedPer, "max-unauthenticated-per-address", "512", 0, "connections per client address that are not logged in; 0: no limit")
	s.Duration(&c.Gateway.ConnectTimeout, "connect-timeout", "5s", "time limit for connecting to the backend")
	s.Duration(&c.Gateway.HandshakeTimeout, "handshake-timeout", "10s", "time limit for a client's login")
	s.Duration(&c.Gateway.IdleTimeout, "idle-timeout", "0", "close clients that send nothing for this long, also in a transaction; 0: never")
	s.Duration(&c.DrainTimeout, "drain-timeout", "30s", "time for running statements after SIGTERM")
	s.in("Memory and CPU")
	s.IntUpTo(&c.Gateway.Loops, "cpus", "0", 0, 1024, "event loops that serve sessions, each up to one CPU; 0: one per CPU")
	s.traces(&c.TracesURL)
	s.Duration(&c.ReturnIdleMemory, "return-idle-memory", "0", "return unused memory to the system after this long without a command; 0: never")
	c.HTTPAccess.declare(s)
	s.in("Rules")
	s.Bool(&c.RulesDryRun, "rules-dry-run", "rules count and log the statements they would refuse, and refuse none")
	c.History.declare(s)
	c.Log.declare(s)
	c.Diag.declare(s)
	s.blocks = append(s.blocks, &block{
		name: "rules", help: rulesHelp,
		decode: func(path string, node *yaml.Node) (errs []error) {
			c.Rules, errs = decodeRules(path, node)
			return errs
		},
		value: func() any { return c.Rules },
	})
	c.need(s)
	c.set = s
	return c
}

// need declares which options have no effect without others.
func (c *Serve) need(s *Set) {
	set := func(u *ControlURL) func() bool { return func() bool { return u.Addr != "" } }
	s.need("without --control", set(&c.Control), "explain", "server-counts", "control-tls")
	s.need("with --http off", c.on, "attention-load", "copies", "standby", "call-sample-bytes", "events-bytes", "tag-labels", "traces-otlp")
	s.need("without --copies", set(&c.Copies), "copies-tls", "copies-public-key", "copies-get-public-key")
	s.need("without --standby", func() bool { return c.Standby != "" }, "standby-accounts")
	s.need("with --pool session", func() bool { return c.Pool == PoolTransaction }, "pool-accounts", "pool-learn", "pool-max", "pool-min", "pool-depth", "pool-statements", "pool-lifetime", "pool-idle", "pool-wait")
	s.need("without --bucket, --log-file or --standby: no other option keeps files there",
		func() bool { return c.Log.Sink.Path != "" || c.History.Enabled() || c.Standby != "" }, "data-dir")
	s.need("with --client-tls off", func() bool { return c.Gateway.ClientTLS != gateway.ClientTLSOff }, "tls-cert", "tls-key", "pool-learn")
	s.need("without --client-tls verify", func() bool { return c.Gateway.ClientTLS == gateway.ClientTLSVerify }, "tls-client-ca")
	s.need("unless --backend-tls, --control-tls or --copies-tls is verify-ca or verify-identity", c.verifies, "backend-tls-ca")
	s.need("if all connections to the backend have TLS", func() bool {
		return !c.BackendTLS.Required() || c.Control.Addr != "" && !c.SideTLS(c.ControlTLS).Required()
	}, "backend-public-key", "backend-get-public-key")
	s.need("if all connections to the target of --copies have TLS", func() bool { return !c.SideTLS(c.CopiesTLS).Required() },
		"copies-public-key", "copies-get-public-key")
	s.need("without --tag-labels", func() bool { return len(c.TagLabels) > 0 }, "tag-values")
	s.need("without --config, whose rules it is about", func() bool { return c.ConfigFile != "" }, "rules-dry-run")
	s.need("with --http off and without --bucket", func() bool { return c.History.Enabled() || c.on() }, "history-max-digests", "history-bytes", "history-max-text")
	c.HTTPAccess.need(s)
	c.Log.need(s, &c.HTTPAccess)
}

// Ready implements Command: every option has a default.
func (c *Serve) Ready() error { return nil }

// Load sets every option and validates them together. The error has all errors, warnings the doubtful values.
func (c *Serve) Load(in Input) (warnings []string, err error) {
	c.again = func() (*Serve, error) {
		fresh := NewServe()
		_, err := fresh.Load(in)
		return fresh, err
	}
	return c.load(in, c.Validate)
}

// Validate reports options that contradict each other.
func (c *Serve) Validate() error {
	var errs []error
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key need each other"))
	}
	if c.TLSClientCA == "" && c.Gateway.ClientTLS == gateway.ClientTLSVerify {
		errs = append(errs, errors.New("--client-tls verify needs --tls-client-ca"))
	}
	errs = append(errs, c.BackendKey.validate(), c.CopiesKey.validate())
	if b := int64(c.CallSampleBytes); b != 0 && (b < calls.MinBytes || b > calls.MaxBytes) {
		errs = append(errs, fmt.Errorf("--call-sample-bytes %s: want 0, or %s to %s", c.CallSampleBytes, Bytes(calls.MinBytes), Bytes(calls.MaxBytes)))
	}
	if _, err := calls.NewTagCounts(c.TagLabels, max(c.TagValues, 1)); err != nil {
		errs = append(errs, fmt.Errorf("--tag-labels: %w", err))
	}
	errs = append(errs, c.HTTPAccess.validate()...)
	if c.Listen == c.HTTP && !strings.HasSuffix(string(c.Listen), ":0") {
		errs = append(errs, errors.New("--listen and --http are the same address"))
	}
	errs = append(errs, c.validateStandby()...)
	errs = append(errs, c.validatePool()...)
	if c.Listen == c.Backend {
		errs = append(errs, errors.New("--listen and --backend are the same address: the gateway would call itself"))
	}
	errs = append(errs, c.History.validate()...)
	return errors.Join(append(errs, c.Log.validate())...)
}

// verifies reports whether the certificate of a server is verified.
func (c *Serve) verifies() bool {
	return verifies(c.BackendTLS, c.SideTLS(c.ControlTLS), c.SideTLS(c.CopiesTLS))
}

// SideTLS returns the TLS mode of a connection beside those of clients: that of its option, or of the backend's, whose
// mirror is preferred, as there is no client.
func (c *Serve) SideTLS(own *mysqlconn.TLSMode) mysqlconn.TLSMode {
	if own != nil {
		return *own
	}
	return c.BackendTLS
}

// CountsDigests reports whether calls are counted by digest: for a history, or for HTTP clients.
func (c *Serve) CountsDigests() bool {
	return c.History.Table.MaxDigests > 0 && (c.History.Enabled() || c.HTTP != "")
}

func (c *Serve) validateStandby() (errs []error) {
	if c.Standby == "" {
		return nil
	}
	if c.StandbyAccounts == "" {
		errs = append(errs, errors.New("--standby needs --standby-accounts: sessions log in again to be switched"))
	}
	if c.Standby == c.Backend || c.Standby == c.Listen {
		errs = append(errs, fmt.Errorf("--standby %s equals --backend or --listen: use another server", c.Standby))
	}
	return errs
}

func (c *Serve) validatePool() (errs []error) {
	if c.Pool != PoolTransaction {
		return nil
	}
	if c.PoolAccounts == "" && !c.PoolLearn {
		errs = append(errs, errors.New("--pool transaction needs --pool-accounts or --pool-learn: the gateway logs in with the accounts itself"))
	}
	if c.PoolMin > c.PoolMax {
		errs = append(errs, errors.New("--pool-min is above --pool-max"))
	}
	return errs
}

// A Reload is a newly read configuration, compared with the current one.
type Reload struct {
	Rules   []Rule
	Changes RuleChanges

	// Restart are the names of changed options, which take effect at a restart.
	Restart []string
}

// Reload reads the configuration file again and compares it with the current options and the given rules. A file that
// is empty or has no rules is an error while there are rules: it may be truncated.
func (c *Serve) Reload(current []Rule) (*Reload, error) {
	if c.ConfigFile == "" {
		return &Reload{}, nil
	}
	fresh, err := c.again()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if fresh.Rules == nil && len(current) > 0 {
		return nil, fmt.Errorf("%s has no rules in its section serve, and %d are in force: write rules: [] for no rules", c.ConfigFile, len(current))
	}
	return &Reload{Rules: fresh.Rules, Changes: CompareRules(current, fresh.Rules), Restart: c.set.changed(fresh.set)}, nil
}

package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/move/alter"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// Alter holds the options of tare alter.
type Alter struct {
	section
	ConfigFile string

	On    ControlURL
	OnTLS mysqlconn.TLSMode
	OnKey ServerKey
	TLSCA string // file; "" for the system's authorities

	Alter alter.Options `json:"-"` // those that are options as they are; the command sets the others

	Queue bool // several tables are altered, which a file names
	Whole bool // the command is about all tables of the server

	HTTPAccess

	Throttle CopyThrottle
	Control  string // path of the control socket; "auto" or "off"

	Diag Diag

	table string
}

// NewAlter returns the options of tare alter with their defaults.
func NewAlter() *Alter {
	c := &Alter{}
	s := newSet("alter", &c.ConfigFile)
	s.Control(&c.On, "on", "account on the server: mysql://user:password@host:port; required")
	s.in("TLS")
	tlsMode(s, &c.OnTLS, "on-tls", "TLS towards --on")
	c.OnKey.declare(s, "on")
	s.String(&c.TLSCA, "tls-ca", "file", "", "CA certificates (PEM) of the server; the system's when empty")
	s.in("")
	s.String(&c.table, "table", "db.t", "", "table to alter; required")
	s.in("How the table is changed")
	s.Duration(&c.Alter.MaxLockWait, "max-lock-wait", alter.DefaultMaxLockWait.String(), "how long a statement waits for the table's lock, with clients behind it, before it is retried; whole seconds")
	s.Int(&c.Alter.LockTries, "lock-tries", fmt.Sprint(alter.DefaultLockTries), 1, "attempts to get the lock, with pauses in between, before the command fails")
	declareBytes(s, &c.Alter.MaxInplace, "max-inplace", Bytes(alter.DefaultMaxInplace).String(), 0, "largest table that the server may rebuild or index in place; 0: none")
	s.Int(&c.Alter.Workers, "workers", fmt.Sprint(copier.DefaultWorkers), 1, "chunks to copy concurrently, where rows are copied; each uses two connections")
	declareBytes(s, &c.Alter.ChunkBytes, "chunk-bytes", "16MiB", 1<<10, "approximate bytes of rows per transaction")
	s.Duration(&c.Alter.MaxViewAge, "max-view-age", "1m", "how long a transaction that reads rows lives, and so its undo log")
	s.Duration(&c.Alter.Patience, "patience", "1m", "how long an unreachable server is awaited")
	s.Duration(&c.Alter.KeepOld, "keep-old", "24h", "how long the old table of a copy is kept for tare alter revert; 0: drop it at once")
	s.Duration(&c.Alter.RevertWindow, "revert-window", "0", "how long changes are followed back into the old table, so that a revert is ready at once; at most --keep-old; 0: not at all")
	s.String(&c.Alter.OnEvent, "on-event", "command", "", "shell command for each event, a line of JSON on its standard input; killed after 30s")
	c.Throttle.declareAlter(s)
	s.in("Control and progress")
	s.String(&c.Control, "control-socket", "file", ControlAuto, "unix socket for tare alter ctl: auto (in $XDG_RUNTIME_DIR/tare/alter), a path, or off")
	s.OptionalAddress(&c.HTTP, "http", "off", "address for a page with the progress, metrics and health, such as 127.0.0.1:8320; off for none")
	c.HTTPAccess.declare(s)
	c.Diag.declare(s)
	s.need("where --on-tls requires TLS", func() bool { return !c.OnTLS.Required() }, "on-public-key", "on-get-public-key")
	s.need("unless --on-tls is verify-ca or verify-identity", func() bool { return verifies(c.OnTLS) }, "tls-ca")
	s.need("with --keep-old 0", func() bool { return c.Alter.KeepOld > 0 }, "revert-window")
	c.HTTPAccess.need(s)
	c.Throttle.need(s)
	c.set = s
	return c
}

// Load gives every option its value and validates them together.
func (c *Alter) Load(in Input) (warnings []string, err error) {
	return c.load(in, c.Validate)
}

// Validate parses the name of the table and reports options that contradict each other.
func (c *Alter) Validate() error {
	var errs []error
	if c.table != "" {
		var err error
		if c.Alter.Schema, c.Alter.Table, err = rowstream.ParseTable(c.table); err != nil {
			errs = append(errs, fmt.Errorf("--table: %w", err))
		}
	}
	if c.Alter.MaxLockWait < time.Second || c.Alter.MaxLockWait%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--max-lock-wait %v: servers count whole seconds; use 1s or more", c.Alter.MaxLockWait))
	}
	if c.Alter.RevertWindow > c.Alter.KeepOld {
		errs = append(errs, fmt.Errorf("--revert-window %v: the old table is kept for %v; raise --keep-old", c.Alter.RevertWindow, c.Alter.KeepOld))
	}
	if c.Control == "" {
		errs = append(errs, errors.New("--control-socket is empty: use auto, off or a path"))
	}
	errs = append(errs, c.OnKey.validate())
	errs = append(errs, c.HTTPAccess.validate()...)
	return errors.Join(append(errs, c.Throttle.validate(CopySource{})...)...)
}

// declareAlter declares the limits of an ALTER TABLE by a copy.
func (t *CopyThrottle) declareAlter(s *Set) {
	s.in("Throttling and cutover")
	s.Duration(&t.Limits.MaxLag, "max-lag", "0", "throttle the copying of rows to keep the lag of --replica below this; 0: no limit")
	declare(s, &t.Replicas, Option{
		Name: "replica", Kind: "url", repeats: true,
		Help: "account on a replica; can be repeated",
	}, parseControlURLs, formatControlURLs)
	s.Int(&t.Limits.MaxThreadsRunning, "max-threads-running", "0", 0, "throttle to keep the server's Threads_running at or below this; 0: no limit")
	s.Duration(&t.Limits.MaxP99, "max-p99", "0", "throttle to keep the p99 of live statements, by --gateway, below this; 0: no limit")
	declare(s, &t.Gateway, Option{Name: "gateway", Kind: "url", Help: "HTTP address of the tare serve with the live traffic, to pause clients for the swap and for --max-p99: http://host:8316"}, parseGatewayURL, GatewayURL.String)
	t.GatewayToken.declare(s, "gateway-", "token of an account of --gateway: role operator to pause clients, viewer for --max-p99")
	s.String(&t.GatewayCA, "gateway-ca", "file", "", "CA certificates (PEM) of --gateway; the system's when empty")
	s.Duration(&t.Limits.Patience, "throttle-patience", "5m", "how long the copying pauses without a limit's metric, before it fails")
}

// Ready reports what is missing to alter a table.
func (c *Alter) Ready() error {
	var errs []error
	if c.On.Addr == "" {
		errs = append(errs, errors.New("--on is required, such as --on mysql://app@db1"))
	}
	if c.Alter.RevertWindow > 0 && c.Queue {
		errs = append(errs, errors.New("--revert-window and --queue exclude each other: tare alter revert reverts a table of a queue"))
	}
	switch {
	case c.table == "" && !c.Queue && !c.Whole:
		errs = append(errs, errors.New("--table is required, such as --table shop.orders"))
	case c.table != "" && c.Queue:
		errs = append(errs, errors.New("--table and --queue exclude each other: each line of a queue names its table"))
	}
	return errors.Join(errs...)
}

// Options are those for package alter, without the server.
func (c *Alter) Options() alter.Options {
	o := c.Alter
	o.Throttle = c.Throttle.Limits
	if o.MaxInplace == 0 {
		o.MaxInplace = -1
	}
	return o
}

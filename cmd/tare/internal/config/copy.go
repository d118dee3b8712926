package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Copy are the options of tare copy.
type Copy struct {
	section
	ConfigFile string

	From           CopySource
	To             CopyTarget
	FromTLS, ToTLS mysqlconn.TLSMode
	FromKey, ToKey ServerKey
	FromToken      Token           // for tare://
	Compress       CopyCompression // for tare://
	TLSCA          string          // file; "": the system's authorities

	// Copy has those that are options as they are, the tables with the clauses of the options below; the command sets the others.
	Copy copier.Options `json:"-"`

	Sources []ControlURL      // several sources, in place of From
	Merge   [][]tabledef.Spec // the tables of each of them

	Shards []ControlURL      // several targets, in place of To
	Split  [][]tabledef.Spec // the tables of each of them

	Selection inventory.Selection // of whole schemas, and of tables by patterns

	FollowUntil FollowUntil
	Heartbeat   FollowHeartbeat
	OnReplica   bool // heartbeats may be written to a replica's primary
	Cutover     CopyCutover

	Throttle CopyThrottle
	Control  string // path of the control socket; "auto" or "off"

	HTTPAccess

	Diag Diag

	tables                string
	schemas, excludes     []string
	objects               string
	collations            []string
	users                 bool
	excludedUsers         []string
	existingUsers         []string
	wheres, shards, names []string
	ignores, splits       []string
}

// NewCopy returns the options of tare copy with their defaults.
func NewCopy() *Copy {
	c := &Copy{}
	s := newSet("copy", &c.ConfigFile)
	declare(s, &c.From, Option{
		Name: "from", Kind: "url",
		Help: "account on the source: mysql://user:password@host:port, tare://host:port of a tare rowstream, or file:///directory or s3://bucket/prefix of a dump; required",
	}, parseCopySource, CopySource.String)
	declare(s, &c.To, Option{
		Name: "to", Kind: "url",
		Help: "account on the target; or file:///directory or s3://bucket/prefix for a dump; required",
	}, parseCopyTarget, CopyTarget.String)
	c.declareMerge(s)
	c.declareSplit(s)
	s.in("TLS and tokens")
	tlsMode(s, &c.FromTLS, "from-tls", "TLS towards --from; required for a tare:// address that is not loopback")
	c.FromKey.declare(s, "from")
	c.FromToken.declare(s, "from-", "token of --from tare://…")
	Enum(s, &c.Compress, "compress", "compression of rows from tare://…: zstd for networks slower than about 100 MB/s", WireNone, WireZstd)
	tlsMode(s, &c.ToTLS, "to-tls", "TLS towards --to")
	c.ToKey.declare(s, "to")
	s.String(&c.TLSCA, "tls-ca", "file", "", "CA certificates (PEM) of both servers; the system's when empty")
	s.in("What is copied")
	s.String(&c.tables, "tables", "list", "", "tables to copy: db.t1,db.t2, db.t1=other.t2 under another name, or patterns such as 'db.ord_*'; it or --schema is required")
	s.Lines(&c.schemas, "schema", "name", "schemas to copy with all of their objects: db1,db2; can be repeated")
	s.Lines(&c.excludes, "exclude", "pattern", "objects that are left out: 'db.log_*,db.v1'; can be repeated")
	s.String(&c.objects, "objects", "list", "all", "kinds of objects that --schema copies besides tables: all, none, or of "+kindList()+", comma separated")
	s.Bool(&c.users, "users", "copy the accounts with privileges on --schema, and these privileges")
	s.Lines(&c.excludedUsers, "exclude-users", "pattern", "accounts that --users leaves out: 'report@%,old_*'; can be repeated")
	s.Lines(&c.existingUsers, "grant-existing", "pattern", "accounts of the target that get privileges despite another definition: 'app@%'; can be repeated")
	s.Lines(&c.collations, "map-collation", "from=to", "collation of the target in place of one that it has not; can be repeated")
	s.Lines(&c.wheres, "where", "clause", "rows to copy, in the source's SQL: 'db.t1: a > 5'; can be repeated per table")
	s.Lines(&c.shards, "only-shard", "clause", "part of the rows to copy, by the CRC32 of a column: 'db.t1: id=1/4'; once per table")
	s.Lines(&c.names, "columns", "clause", "columns to copy, optionally renamed: 'db.t1: id, name as title'; can be repeated per table")
	s.in("How rows are copied")
	s.Int(&c.Copy.Workers, "workers", "4", 1, "chunks to copy concurrently; each uses a connection to both servers")
	declareBytes(s, &c.Copy.ChunkBytes, "chunk-bytes", "16MiB", 1<<10, "approximate bytes of rows per transaction")
	s.Duration(&c.Copy.Patience, "patience", "1m", "how long an unreachable source or target is awaited")
	s.String(&c.Copy.StateSchema, "state-schema", "schema", state.DefaultStateSchema, "schema in the target for the state of copies")
	s.Bool(&c.Copy.KeepIndexes, "keep-indexes", "keep secondary indexes while rows are copied")
	s.in("Changes")
	s.Bool(&c.Copy.Follow, "follow", "apply changes to the tables from the source's binary log, continuously")
	Enum(s, &c.FollowUntil, "follow-until", "end of following: tare copy ctl finish or a signal, or once the target has caught up", FollowUntilFinished, FollowUntilCaughtUp)
	Enum(s, &c.Heartbeat, "heartbeat", "on: --follow writes a row to "+binlog.HeartbeatTable+" in each followed schema of the source every second and requires it in the log; off: the lag is inferred from positions",
		HeartbeatOn, HeartbeatOff)
	s.Bool(&c.OnReplica, "heartbeat-on-replica", "follow a replica: heartbeats go to its primary, with the same account")
	s.Duration(&c.Copy.MaxViewAge, "max-view-age", "1m", "how long a transaction that reads the source lives, for which an ALTER TABLE waits")
	s.Lines(&c.ignores, "ignore-statement", "digest", "digest of a statement that stopped --follow and changes no copied table; can be repeated")
	c.Cutover.declare(s)
	s.in("Verification")
	s.Bool(&c.Copy.Verify, "verify", "compare all rows by checksums, on a finished copy only that; exit code 3 if rows differ")
	c.Throttle.declare(s)
	s.in("Control and progress")
	s.String(&c.Control, "control-socket", "file", ControlAuto, "unix socket for tare copy ctl: auto (in $XDG_RUNTIME_DIR/tare), a path, or off")
	s.OptionalAddress(&c.HTTP, "http", "off", "address for a page with the progress, metrics and health, such as 127.0.0.1:8320; off for none")
	c.HTTPAccess.declare(s)
	c.Diag.declare(s)
	c.need(s)
	c.set = s
	return c
}

// need declares which options have no effect without others. Those about the kind of --from and --to are for a command line: a
// file may lack both.
func (c *Copy) need(s *Set) {
	from := func(kind func(CopySource) bool) func() bool {
		return func() bool {
			return len(c.Sources) > 0 && kind(CopySource{MySQL: c.Sources[0]}) || len(c.Sources) == 0 && (!c.From.given() || kind(c.From))
		}
	}
	server := func(u CopySource) bool { return u.MySQL.Addr != "" }
	tare := func(u CopySource) bool { return u.Tare != "" }
	toServer := func() bool { return !c.To.IsDump() }
	s.need("on a dump: parameters of its URL are for TLS to the bucket", from(func(u CopySource) bool { return !u.IsDump() }), "from-tls")
	s.need("without --from mysql://", from(server), "from-public-key", "from-get-public-key")
	s.need("where --from-tls requires TLS", func() bool { return !c.FromTLS.Required() }, "from-public-key", "from-get-public-key")
	s.need("without --from tare://", from(tare), "from-token", "from-token-file", "compress")
	s.need("on a dump", toServer, "to-tls", "to-public-key", "to-get-public-key")
	s.need("where --to-tls requires TLS", func() bool { return !c.ToTLS.Required() }, "to-public-key", "to-get-public-key")
	s.need("unless --from-tls or --to-tls is verify-ca or verify-identity", func() bool { return verifies(c.FromTLS, c.ToTLS) }, "tls-ca")
	s.need("on a dump: its progress is in its directory", toServer, "state-schema")
	s.need("on a dump: give it when the dump is loaded", toServer, "keep-indexes", "map-collation")
	s.need("on a dump, which tare copy ctl does not watch: see its output, or --http", func() bool { return toServer() || c.Control == ControlOff }, "control-socket")
	s.need("on a dump, whose chunks are as they were written", from(func(u CopySource) bool { return !u.IsDump() }), "chunk-bytes")
	s.need("without --schema or a pattern in --tables", func() bool { return !c.Selection.Empty() }, "exclude")
	s.need("without --schema", func() bool { return len(c.Selection.Schemas) > 0 }, "objects")
	s.need("without --users", func() bool { return c.users }, "exclude-users", "grant-existing")
	s.need("without --to-shard or --from-shard", func() bool { return len(c.Shards)+len(c.Sources) > 0 }, "shard-by")
	s.need("without --follow", func() bool { return c.Copy.Follow }, "follow-until", "heartbeat", "heartbeat-on-replica", "max-view-age", "ignore-statement")
	s.need("with --heartbeat off", func() bool { return c.Heartbeat == HeartbeatOn }, "heartbeat-on-replica")
	c.HTTPAccess.need(s)
	c.Cutover.need(s, c)
	s.need("without --max-p99 or --cutover", func() bool { return c.Throttle.Limits.MaxP99 > 0 || c.Cutover.On }, "gateway")
	c.Throttle.need(s)
	s.need("without --throttle-query", func() bool { return c.Throttle.Limits.Query != "" }, "throttle-above")
	s.need("without --max-threads-running or --throttle-query", func() bool { return c.Throttle.Limits.MaxThreadsRunning > 0 || c.Throttle.Limits.Query != "" }, "throttle-server")
}

// Values of --control-socket that are not paths.
const (
	ControlAuto = "auto"
	ControlOff  = "off"
)

// verifies reports whether one of the modes verifies the server's certificate.
func verifies(modes ...mysqlconn.TLSMode) bool {
	return slices.ContainsFunc(modes, func(m mysqlconn.TLSMode) bool { return m == mysqlconn.TLSVerifyCA || m == mysqlconn.TLSVerifyIdentity })
}

// tlsMode declares the TLS mode of a connection.
func tlsMode(s *Set, p *mysqlconn.TLSMode, name, help string) {
	declare(s, p, Option{Name: name, Kind: "preferred|disabled|required|verify-ca|verify-identity", Default: "preferred", Help: help},
		mysqlconn.ParseTLSMode, mysqlconn.TLSMode.String)
}

// sideTLS declares the TLS mode of a connection of tare serve beside those of clients; nil is the backend's.
func sideTLS(s *Set, p **mysqlconn.TLSMode, name, help string) {
	const backend = "backend"
	declare(s, p, Option{Name: name, Kind: backend + "|preferred|disabled|required|verify-ca|verify-identity", Default: backend, Help: help + "; backend: as --backend-tls, where mirror is preferred"},
		func(text string) (*mysqlconn.TLSMode, error) {
			if text == backend {
				return nil, nil
			}
			mode, err := mysqlconn.ParseTLSMode(text)
			return &mode, err
		}, func(mode *mysqlconn.TLSMode) string {
			if mode == nil {
				return backend
			}
			return mode.String()
		})
}

// Load sets every option and validates them together.
func (c *Copy) Load(in Input) (warnings []string, err error) {
	return c.load(in, c.Validate)
}

// Validate parses the clauses about tables and reports options that contradict each other.
func (c *Copy) Validate() error {
	errs := append(append(c.validateWire(), c.Throttle.validate(c.From)...), c.validateFollow()...)
	errs = append(errs, c.HTTPAccess.validate()...)
	if c.Control == "" {
		errs = append(errs, errors.New("--control-socket is empty: use auto, off or a path"))
	}
	errs = append(errs, c.validateSelection()...)
	errs = append(errs, c.validateDump()...)
	if len(c.Copy.Tables) > 0 && c.Selection.Empty() {
		errs = append(errs, c.Clauses(c.Copy.Tables))
	}
	errs = append(append(errs, c.validateMerge()...), c.validateSplit()...)
	errs = append(errs, c.FromKey.validate(), c.ToKey.validate())
	return errors.Join(errs...)
}

// Clauses adds the clauses about single tables to their specs. Where tables are selected by schemas or patterns, they are known only once
// the source has been read.
func (c *Copy) Clauses(tables []tabledef.Spec) error {
	var errs []error
	for _, clauses := range []struct {
		name string
		all  []string
		add  func([]tabledef.Spec, string) error
	}{{"where", c.wheres, tabledef.AddWhere}, {"only-shard", c.shards, tabledef.AddShard}, {"columns", c.names, tabledef.AddColumns}} {
		for _, text := range clauses.all {
			if err := clauses.add(tables, text); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", clauses.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Ready returns an error that names missing options.
func (c *Copy) Ready() error {
	var errs []error
	if !c.From.given() && len(c.Sources) == 0 {
		errs = append(errs, errors.New("--from is required, such as --from mysql://app@db1"))
	}
	if c.To.MySQL.Addr == "" && !c.To.IsDump() && len(c.Shards) == 0 {
		errs = append(errs, errors.New("--to is required, such as --to mysql://app@db2"))
	}
	if len(c.Copy.Tables) == 0 && c.Selection.Empty() && !c.From.IsDump() {
		errs = append(errs, errors.New("--tables is required, such as --tables shop.orders,shop.items; or --schema shop"))
	}
	return errors.Join(errs...)
}

// A FollowHeartbeat specifies whether heartbeats are written to the source.
type FollowHeartbeat string

// The values of --heartbeat.
const (
	HeartbeatOn  FollowHeartbeat = "on"
	HeartbeatOff FollowHeartbeat = "off"
)

// A FollowUntil specifies when following ends.
type FollowUntil string

// The ends of following.
const (
	FollowUntilFinished FollowUntil = "told"
	FollowUntilCaughtUp FollowUntil = "caught-up"
)

// validateFollow validates the options of following.
func (c *Copy) validateFollow() (errs []error) {
	c.Copy.IgnoreStatements = nil
	for _, text := range c.ignores {
		digest, err := sqldigest.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--ignore-statement: %w", err))
		}
		c.Copy.IgnoreStatements = append(c.Copy.IgnoreStatements, digest)
	}
	return append(errs, c.Cutover.validate(c)...)
}

// A CopyCompression is the compression of rows on the wire.
type CopyCompression string

// Compressions of rows on the wire.
const (
	WireNone CopyCompression = "none"
	WireZstd CopyCompression = "zstd"
)

// validateWire validates the options of tare://.
func (c *Copy) validateWire() []error {
	errs := c.FromToken.validate("from-")
	if c.From.Tare == "" {
		return errs
	}
	if c.FromTLS == mysqlconn.TLSPreferred && !c.From.Tare.Loopback() {
		errs = append(errs, fmt.Errorf("--from %s: say whether it speaks TLS: --from-tls verify-identity (or verify-ca, required), or --from-tls disabled", c.From))
	}
	return errs
}

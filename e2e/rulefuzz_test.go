//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	le "encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var (
	fuzzRulesTime = flag.Duration("fuzzrules.duration", time.Minute, "how long TestRuleFuzz starts new sessions, for each server")
	fuzzRulesTare = flag.String("fuzzrules.tare", "", "another tare binary that TestRuleFuzz runs")
)

// The rules of two gateways: a refusal by one because of effects must not hide that the other permits
// reading.
var fuzzRules = map[bool]string{
	false: "serve:\n  rules:\n    - {name: secret, action: block, tables: [\"*.secret\", \"rulefuzz.vault\"], users: [app, \u00e4pp]}\n",
	true:  "serve:\n  rules:\n    - {name: frozen, action: read-only, users: [app, \u00e4pp]}\n",
}

// fuzzLater blocks one more table, by a reload.
const fuzzLater = "    - {name: later, action: block, tables: [\"rulefuzz.later\"]}\n"

// fuzzNone are rules that refuse nothing.
const fuzzNone = "serve:\n  rules:\n    - {name: none, action: block, tables: [\"none.none\"], users: [none]}\n"

// A ruleFuzz drives two gateways and queries their server for the effects.
type ruleFuzz struct {
	t        *testing.T
	direct   *sql.DB
	classes  []fuzzClass
	gateways map[bool]*tare // by fuzzClass.effect
	config   string         // of the gateway that blocks tables
	accesses string         // query for the number of accesses to the table secret and one other
	schema   string
	reloads  int
	rand     *rand.Rand
	busy     int64 // connection that executes a statement with the blocked table

	ran, refused, invalid int
	seen                  bool              // the last statement returned rows of the blocked table
	found                 map[string]string // by class
}

// TestRuleFuzz sends generated statements under rules that forbid a table, and all changes. The server's
// counters decide whether a forbidden table was read or data was changed. The TiDB is the one built by `make
// tidb`, or TARE_TIDB (host:port, root without a password).
func TestRuleFuzz(t *testing.T) {
	if *fuzzRulesTare != "" {
		own := binary
		binary = *fuzzRulesTare
		defer func() { binary = own }()
	}
	for _, name := range fuzzServers {
		t.Run(name, func(t *testing.T) {
			f := newRuleFuzz(t, fuzzServer(t, name))
			for end := time.Now().Add(*fuzzRulesTime); time.Now().Before(end); {
				f.session()
			}
			f.report()
		})
	}
}

var fuzzServers = [...]string{"MariaDB", "MySQL", "TiDB"}

// fuzzServer starts a server with the accounts of the fuzzer.
func fuzzServer(t *testing.T, name string) (addr string) {
	t.Helper()
	if name == "TiDB" {
		return fuzzTiDB(t)
	}
	opts := []testmysql.Option{testmysql.WithPerformanceSchema()}
	if name == "MySQL" {
		if why := os.Getenv("TARE_NO_MYSQL"); why != "" {
			t.Skip(why)
		}
		opts = append(opts, testmysql.WithMySQL())
	}
	server, err := testmysql.New(opts...)
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	must(t, server.Exec("SET NAMES utf8mb4", "CREATE USER '\u00e4pp'@'%' IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON *.* TO '\u00e4pp'@'%'",
		"GRANT RELOAD, SUPER, PROCESS, FILE ON *.* TO 'app'@'%'", "SET GLOBAL log_bin_trust_function_creators = 1"))
	return server.Addr
}

func fuzzTiDB(t *testing.T) (addr string) {
	t.Helper()
	if addr = os.Getenv("TARE_TIDB"); addr == "" {
		return startTiDB(t)
	}
	root, err := sql.Open("mysql", "root@tcp("+addr+")/")
	must(t, err)
	defer root.Close()
	for _, stmt := range []string{
		"CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED BY '" + testmysql.Password + "'", "GRANT ALL ON *.* TO 'app'@'%'",
	} {
		if _, err := root.Exec(stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	return addr
}

// newRuleFuzz creates the tables and starts the gateways.
func newRuleFuzz(t *testing.T, addr string) *ruleFuzz {
	f := &ruleFuzz{t: t, classes: fuzzClasses, schema: "rulefuzz", rand: testseed.Rand(t), found: map[string]string{}, gateways: map[bool]*tare{}}
	f.direct = open(t, addr, "")
	f.direct.SetMaxOpenConns(1)
	write := "MODIFIES SQL DATA BEGIN INSERT INTO rulefuzz.plain VALUES (6); RETURN 1; END"
	for _, stmt := range []string{
		"SET default_storage_engine = InnoDB",
		"DROP DATABASE IF EXISTS rulefuzz", "DROP DATABASE IF EXISTS rulefuzz2", "CREATE DATABASE rulefuzz", "CREATE DATABASE rulefuzz2", "USE rulefuzz",
		"CREATE TABLE secret (a INT) ENGINE=MyISAM", "INSERT INTO secret VALUES (424242), (434343)", "CREATE TABLE plain (a INT) ENGINE=MyISAM", "INSERT INTO plain VALUES (1), (2)",
		"CREATE TABLE later (a INT)", "INSERT INTO later VALUES (1)",
		"CREATE TABLE vault (a INT PRIMARY KEY)", "INSERT INTO vault VALUES (424242), (434343)", "CREATE TABLE rulefuzz2.vault (a INT PRIMARY KEY)",
		"ANALYZE TABLE secret PERSISTENT FOR ALL", "ANALYZE TABLE secret UPDATE HISTOGRAM ON a", "ANALYZE TABLE secret",
		"CREATE PROCEDURE pw() INSERT INTO rulefuzz.plain VALUES (8)",
		"CREATE FUNCTION f() RETURNS INT " + write, "CREATE FUNCTION nvl(a INT, b INT) RETURNS INT " + write, "CREATE FUNCTION nvl2(a INT, b INT, c INT) RETURNS INT " + write,
		"CREATE FUNCTION `count`(a INT) RETURNS INT " + write, "CREATE SEQUENCE s NOCACHE",
		"CREATE FUNCTION bin_to_uuid(a INT) RETURNS INT " + write, "CREATE FUNCTION uuid_to_bin(a INT) RETURNS INT " + write, "CREATE FUNCTION json_detailed(a INT) RETURNS INT " + write,
		"CREATE FUNCTION regexp_like(a INT, b INT) RETURNS INT " + write, "CREATE FUNCTION st_latitude(a INT) RETURNS INT " + write,
		"CREATE FUNCTION add_months(a INT, b INT) RETURNS INT " + write, "CREATE FUNCTION to_char(a INT, b INT) RETURNS INT " + write,
	} {
		_, _ = f.direct.Exec(stmt) // not every server supports all of them
	}
	f.accesses = "SELECT SUM(count_star) FROM performance_schema.table_io_waits_summary_by_table WHERE object_schema = 'rulefuzz' AND object_name IN ('secret', '%s')"
	if _, err := f.direct.Exec("SET GLOBAL tidb_stmt_summary_refresh_interval = 86400"); err == nil {
		f.accesses = "SELECT SUM(exec_count) FROM information_schema.statements_summary WHERE table_names LIKE '%%rulefuzz.secret%%' OR table_names LIKE '%%rulefuzz.%s%%'"
	}
	before := f.state(&fuzzClass{})
	if _, err := f.direct.Exec("SELECT a FROM rulefuzz.secret"); err != nil || f.state(&fuzzClass{}) == before {
		t.Fatalf("a read of the blocked table is not seen: %v, %s", err, before)
	}
	f.occupy(addr)
	for effect, rules := range fuzzRules {
		config := filepath.Join(t.TempDir(), "rules.yaml")
		must(t, os.WriteFile(config, []byte(rules), 0o600))
		f.gateways[effect] = startTare(t, addr, "--config", config)
		if !effect {
			f.config = config
		}
	}
	return f
}

// occupy has connections keep values of a blocked table where the server exposes them: in locks, in a
// variable, in the last error of a foreign key, and in the plan of a statement that runs until the test ends.
func (f *ruleFuzz) occupy(addr string) {
	db := open(f.t, addr, "rulefuzz2")
	session := func(stmts ...string) *sql.Conn {
		c, err := db.Conn(f.t.Context())
		must(f.t, err)
		f.t.Cleanup(func() { _ = c.Close() }) // otherwise closing db leaves it open, with its locks
		for _, stmt := range stmts {
			_, _ = c.ExecContext(f.t.Context(), stmt) // not every server supports all of them
		}
		return c
	}
	runs := func(c *sql.Conn, stmt string) {
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(f.t.Context())
		var id uint64
		must(f.t, c.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
		go func() {
			defer close(done)
			_, _ = c.ExecContext(ctx, stmt)
		}()
		f.t.Cleanup(func() {
			cancel()
			testwait.Receive(f.t, "the statement to end", done)
			_, _ = f.direct.Exec(fmt.Sprintf("KILL %d", id)) // it would continue without its client, and block the next DROP DATABASE
		})
	}
	session("CREATE TABLE secret (a INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO secret VALUES (424242), (434343)",
		"CREATE TABLE watched (a INT) ENGINE=InnoDB", "INSERT INTO watched VALUES (1), (2)",
		"CREATE TABLE child (a INT, FOREIGN KEY (a) REFERENCES secret (a)) ENGINE=InnoDB", "INSERT INTO child VALUES (424241)")
	session("SET @seen = (SELECT MAX(a) FROM secret)", "BEGIN", "SELECT a FROM secret FOR UPDATE")
	runs(session("SET innodb_lock_wait_timeout = 100000000"), "SELECT a FROM secret WHERE a = 424242 FOR UPDATE")
	busy := session()
	must(f.t, busy.QueryRowContext(f.t.Context(), "SELECT CONNECTION_ID()").Scan(&f.busy))
	runs(busy, "SELECT w.a, SLEEP(100000) FROM watched w JOIN secret s ON w.a <> s.a WHERE s.a = 434343")
}

// report fails the test if there are evasions, or if too few statements ran.
func (f *ruleFuzz) report() {
	t := f.t
	names := make([]string, 0, len(f.found))
	for name, how := range f.found {
		names = append(names, name)
		t.Errorf("%s: evaded the rules: %s", name, how)
	}
	slices.Sort(names)
	t.Logf("%d ran, %d refused by rules, %d refused by the server; %d of %d classes evaded: %s",
		f.ran, f.refused, f.invalid, len(names), len(f.classes), strings.Join(names, "; "))
	if f.ran < (f.ran+f.refused+f.invalid)/2 {
		t.Errorf("only %d statements ran", f.ran)
	}
}

// session logs in, sends a setting, some harmless statements and one of a class.
func (f *ruleFuzz) session() {
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	class := &f.classes[f.rand.IntN(len(f.classes))]
	user := class.user
	if user == "" {
		user = testmysql.AppUser
	}
	setting := pick(f.rand, fuzzSettings)
	if len(class.settings) > 0 {
		setting = pick(f.rand, class.settings)
	} else if class.delivery != asText {
		setting = ""
	}
	schema := class.schema
	if schema == "" {
		schema = f.schema
	}
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{
		Addr: f.gateways[class.effect].addr, User: user, Password: testmysql.Password, Database: schema, Charset: class.charset,
		TLSMode: mysqlconn.TLSDisabled, Capabilities: mysqlwire.CapMultiStatements,
	})
	if err != nil {
		return // some servers lack the user
	}
	defer c.Close()
	if setting != "" && !f.set(ctx, c, setting) {
		return
	}
	for range 3 {
		_, err := c.Exec(ctx, f.spell(pick(f.rand, fuzzHarmless)))
		f.count(err)
	}
	stmt := pick(f.rand, class.forms)
	if class.delivery != asCommand {
		stmt = f.spell(stmt)
	}
	before := f.state(class)
	f.seen = false
	err = f.send(ctx, c, class, stmt)
	f.count(err)
	after := f.state(class)
	// The effect of a command without text is not in the tables: a response of the server is sufficient.
	server, fromServer := errors.AsType[*mysqlconn.ServerError](err)
	reached := class.delivery == asCommand && (err == nil || fromServer && !strings.Contains(server.Message, "Tare refused"))
	if reached || f.seen || after != before {
		f.found[class.name] = fmt.Sprintf("%q after %q as %s: %s became %s", stmt, setting, user, before, after)
	}
	if after != before {
		_, _ = f.direct.Exec("DROP TABLE IF EXISTS rulefuzz.n, rulefuzz2.n")
	}
}

// set sends a setting, spelled like a form if it has no spaces, and reports whether the session continues:
// settings after "! " may fail, and settings after "binary " are prepared by the protocol.
func (f *ruleFuzz) set(ctx context.Context, c *mysqlconn.Client, setting string) bool {
	if text, ok := strings.CutPrefix(setting, "binary "); ok {
		p, err := c.Prepare(ctx, []byte(text))
		if err == nil {
			err = f.command(c, executeOf(p, nil))
		}
		f.count(err)
		return true
	}
	text, mayFail := strings.CutPrefix(setting, "! ")
	if !strings.Contains(text, " ") {
		text = f.spell(text)
	}
	_, err := c.Exec(ctx, text)
	f.count(err)
	return err == nil || mayFail
}

func pick(r *rand.Rand, of []string) string { return of[r.IntN(len(of))] }

// count counts a statement by its outcome.
func (f *ruleFuzz) count(err error) {
	switch {
	case err == nil:
		f.ran++
	case strings.Contains(err.Error(), "Tare refused"):
		f.refused++
	default:
		f.invalid++
	}
}

// send delivers the statement in the way of the class.
func (f *ruleFuzz) send(ctx context.Context, c *mysqlconn.Client, class *fuzzClass, stmt string) error {
	switch class.delivery {
	case asSQLText:
		_, err := c.Exec(ctx, "PREPARE s FROM '"+strings.ReplaceAll(stmt, "'", "''")+"'")
		if err == nil {
			_, err = c.Query(ctx, "EXECUTE s", f.look)
		}
		return err
	case aroundReload:
		first, second, _ := strings.Cut(stmt, ";;")
		f.reload(fuzzNone)
		defer f.reload(fuzzRules[false])
		if _, err := c.Exec(ctx, first); err != nil {
			return err
		}
		f.reload(fuzzRules[false] + fuzzLater)
		_, err := c.Query(ctx, second, f.look)
		return err
	case behindDump:
		f.reload(fuzzNone)
		err := f.command(c, []byte{byte(mysqlwire.ComBinlogDumpGTID)})
		f.reload(fuzzRules[false])
		if _, refused := errors.AsType[*mysqlconn.ServerError](err); !refused {
			return err
		}
		_, err = c.Query(ctx, stmt, f.look)
		return err
	case asCommand:
		return f.command(c, []byte(stmt))
	case withParameter:
		p, err := c.Prepare(ctx, []byte(stmt))
		if err == nil {
			err = f.command(c, executeOf(p, []int32{int32(f.rand.IntN(3))}))
		}
		return err
	case asPrepared, afterReload:
		p, err := c.Prepare(ctx, []byte(stmt))
		if err == nil && class.delivery == afterReload {
			if _, err = c.Exec(ctx, "USE rulefuzz2"); err == nil {
				f.reload(fuzzRules[false] + fuzzLater)
				defer f.reload(fuzzRules[false])
			}
		}
		if err == nil {
			err = f.command(c, executeOf(p, nil))
		}
		return err
	}
	_, err := c.Query(ctx, stmt, f.look)
	return err
}

// executeOf returns the command that executes a statement with integers for its parameters.
func executeOf(p mysqlwire.PrepareOK, params []int32) []byte {
	b := le.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComStmtExecute)}, p.StatementID)
	b = append(b, 0, 1, 0, 0, 0)
	if len(params) == 0 {
		return b
	}
	b = append(b, make([]byte, (len(params)+7)/8)...)
	b = append(b, 1)
	for range params {
		b = append(b, 3, 0) // an INT
	}
	for _, v := range params {
		b = le.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// look reports an error if a row has a value of the blocked table: for servers that do not count accesses.
func (f *ruleFuzz) look(row mysqlwire.TextRow) error {
	for _, v := range row {
		f.seen = f.seen || bytes.Contains(v, []byte("424242")) || bytes.Contains(v, []byte("434343")) ||
			bytes.Contains(v, []byte{0x32, 0x79, 0x06, 0}) || // in the table's file
			bytes.Contains(v, []byte("80067932")) // of a record of InnoDB
	}
	return nil
}

// command sends a command and reads the first packet of its response. It is the connection's last one.
func (f *ruleFuzz) command(c *mysqlconn.Client, payload []byte) error {
	must(f.t, c.SetDeadline(time.Now().Add(10*time.Second)))
	c.Seq = 0
	if err := c.WriteMessage(payload); err != nil {
		return err
	}
	response, err := c.ReadMessage(1 << 24)
	if err != nil {
		return err
	}
	var e mysqlwire.Err
	if len(response) > 0 && response[0] == mysqlwire.MarkErr && e.Decode(response) == nil {
		return &mysqlconn.ServerError{Number: e.Number, Message: string(e.Message)}
	}
	return nil
}

// reload replaces the rules of the gateway that blocks tables.
func (f *ruleFuzz) reload(rules string) {
	must(f.t, os.WriteFile(f.config, []byte(rules), 0o600))
	p := f.gateways[false]
	f.reloads++
	must(f.t, p.cmd.Process.Signal(syscall.SIGHUP))
	testwait.Until(f.t, "the rules to be reloaded", func() bool { return strings.Count(p.text(), `"rules reloaded"`) >= f.reloads })
}

// spell returns the form with white space, quotes and a long number.
func (f *ruleFuzz) spell(form string) string {
	form = strings.ReplaceAll(form, "$R", strconv.Itoa(100+f.rand.IntN(900)))
	form = strings.ReplaceAll(form, "$I", strconv.FormatInt(f.busy, 10))
	for _, name := range []string{"secret", "later", "vault"} {
		mark := "$" + strings.ToUpper(name[:1])
		if name == "secret" {
			mark = "$T"
		}
		spelled := name
		if n := f.rand.IntN(4); n == 0 && name == "secret" && !strings.Contains(form, "HANDLER") {
			spelled = f.schema + "." + name
		} else if n == 1 {
			spelled = "`" + name + "`"
		}
		form = strings.ReplaceAll(form, mark, spelled)
	}
	// An N within a word is not a placeholder.
	for _, at := range []string{"1.N", "1N", "0N"} {
		form = strings.ReplaceAll(form, at, at[:len(at)-1]+strings.Repeat("0", 20+f.rand.IntN(70)))
	}
	strange := f.rand.IntN(2) == 0
	var b strings.Builder
	for i := 0; i < len(form); i++ {
		switch c := form[i]; {
		case c != '_' || i > 0 && i < len(form)-1 && lower(form[i-1]) && lower(form[i+1]):
			b.WriteByte(c)
		case strange:
			b.WriteString(pick(f.rand, fuzzSpaces))
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }

// state returns the server's counters for the tables: rows read of the blocked ones, or changes by
// statements.
func (f *ruleFuzz) state(class *fuzzClass) string {
	var reads, merged, rows, sum, tables, next, keys, threshold sql.NullInt64
	if !class.effect {
		also := "vault"
		if class.delivery == afterReload || class.delivery == aroundReload {
			also = "later"
		}
		scan(f.t, f.direct, fmt.Sprintf(f.accesses, also), &reads)
		scan(f.t, f.direct, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema LIKE 'rulefuzz%' AND engine = 'MRG_MYISAM'", &merged)
		scan(f.t, f.direct, "SELECT COUNT(*) FROM information_schema.referential_constraints WHERE unique_constraint_schema = 'rulefuzz' AND referenced_table_name = 'vault'", &keys)
		return fmt.Sprintf("blocked tables accessed %d times, %d MERGE tables, %d foreign keys", reads.Int64, merged.Int64, keys.Int64)
	}
	scan(f.t, f.direct, "SELECT COUNT(*), SUM(a) FROM rulefuzz.plain", &rows, &sum)
	scan(f.t, f.direct, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'rulefuzz'", &tables)
	_ = f.direct.QueryRow("SELECT next_not_cached_value FROM rulefuzz.s").Scan(&next) // only MariaDB has sequences
	_ = f.direct.QueryRow("SELECT @@tidb_slow_log_threshold").Scan(&threshold)        // one value per server, only in TiDB
	return fmt.Sprintf("plain %d rows of %d, %d tables, sequence at %d, threshold %d", rows.Int64, sum.Int64, tables.Int64, next.Int64, threshold.Int64)
}

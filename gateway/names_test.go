package gateway_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

var (
	namesDuration = flag.Duration("names-duration", 3*time.Second, "how long TestNames sends names to each server; make fuzz-rules uses minutes")
	namesWorkers  = flag.Int("names-workers", 4, "concurrent clients of TestNames")
)

// The accounts, schemas and tables of TestNames. The names outside ASCII exist in the character sets that have the
// letters.
const (
	nameUser   = "fuzz"
	nameCanary = "CANARY"
	wideName   = "größe"
)

// nameRules block the tables with canaries, and one type of statement of the users.
func nameRules() []sqlplan.Rule {
	return []sqlplan.Rule{
		{Name: "secret", Action: sqlplan.ActionBlock, Tables: []string{"fuzzed.secret", wideName + ".secret", "fuzzed." + wideName}},
		{Name: "user", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeDo}, Users: []string{nameUser, wideName}},
	}
}

// nameAllowed allow what the clients do besides reading the tables with canaries.
func nameAllowed() []sqlplan.Rule {
	return []sqlplan.Rule{
		{Name: "tables", Action: sqlplan.ActionAllow, Tables: []string{"open.*", "*.free", "fuzze?.table"}},
		{Name: "session", Action: sqlplan.ActionAllow, Types: []sqlplan.Type{sqlplan.TypeSet, sqlplan.TypeUse}},
	}
}

// A nameFuzz sends names with arbitrary bytes in every character set of a server, in every position of a name. What
// the server made of a name shows in the rows that it returns, and in DATABASE() and CURRENT_USER().
type nameFuzz struct {
	t        *testing.T
	blocks   *rig // under nameRules
	allows   *rig // under nameAllowed
	limits   *rig // with one connection per user
	charsets []nameCharset
	records  nameRecords

	sent, accepted, reached, refused, leaks atomic.Int64
}

// A nameCharset is a character set of clients, with its default collation and the bytes of wideName; nil if it lacks a
// letter.
type nameCharset struct {
	name string
	id   uint8
	wide []byte
}

// nameRecords keeps the schema and user in the last record of each connection's probe.
type nameRecords struct {
	mu sync.Mutex
	at map[uint64][2]string
}

func (r *nameRecords) Observe(rec *querylog.Record) {
	if !bytes.Contains(bytes.ToUpper(rec.Normalized), []byte("CURRENT_USER")) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[rec.ConnectionID] = [2]string{rec.Schema, rec.User}
}

func (r *nameRecords) take(id uint64) (at [2]string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok = r.at[id]
	delete(r.at, id)
	return at, ok
}

// A namePosition sends a name in one position; quoted names are in backticks.
type namePosition struct {
	name string
	base string // of the name
	send func(w *nameWorker, name []byte)
}

func namePositions() []namePosition {
	text := func(before, after string) func(*nameWorker, []byte) {
		return func(w *nameWorker, name []byte) { w.read(before + string(name) + after) }
	}
	return []namePosition{
		{"schema", "fuzzed", text("SELECT s FROM `", "`.secret")},
		{"schema by USE", "fuzzed", (*nameWorker).use},
		{"schema by COM_INIT_DB", "fuzzed", (*nameWorker).initDB},
		{"user of a login", nameUser, (*nameWorker).logIn},
		{"user beside a limit", nameUser, (*nameWorker).logInLimited},
		{"schema of a login", "fuzzed", (*nameWorker).logInTo},
		{"table", "secret", text("SELECT s FROM fuzzed.`", "`")},
		{"unquoted schema", "fuzzed", text("SELECT s FROM ", ".secret")},
		{"unquoted table", "secret", text("SELECT s FROM fuzzed.", " WHERE 1")},
		{"column alias", "s", text("SELECT s AS `", "` FROM fuzzed.secret")},
		{"unquoted column alias", "s", text("SELECT s ", " FROM fuzzed.secret")},
		{"column alias in quotes", "s", text("SELECT s AS '", "'FROM fuzzed.secret")},
		{"alias of a table", "t", text("SELECT s FROM open.free `", "`, fuzzed.secret")},
		{"common table expression", "secret", text("WITH `", "` AS (SELECT 1) SELECT s FROM fuzzed.secret")},
		{"function", "load_file", text("SELECT `", "`(CONCAT(@@datadir, 'fuzzed/file.txt'))")},
		{"variable", "sql_mode", func(w *nameWorker, name []byte) {
			_ = w.exec("SET `" + string(name) + "` = 'ANSI_QUOTES'")
			w.read("SELECT s FROM fuzzed.\"secret\"")
			_ = w.exec("SET sql_mode = DEFAULT")
		}},
		{"schema of COM_CHANGE_USER", "fuzzed", (*nameWorker).changeTo},
		{"user of COM_CHANGE_USER", nameUser, (*nameWorker).changeUser},
	}
}

// TestNames sends names with every byte, in every character set that the server has and in every position, at the
// start, within and at the end of the name. No rule is evaded, no record has a wrong schema or user.
func TestNames(t *testing.T) {
	for _, server := range []struct {
		name string
		opts []testmysql.Option
	}{
		{"MariaDB", []testmysql.Option{testmysql.WithArgs("--secure-file-priv=")}},
		{"MySQL", []testmysql.Option{testmysql.WithMySQL(), testmysql.WithArgs("--secure-file-priv=")}},
		{"TiDB", nil},
	} {
		t.Run(server.name, func(t *testing.T) {
			addr := ""
			if server.opts != nil {
				addr = testmysql.StartOrSkip(t, server.opts...).Addr
			} else {
				addr, _ = startTiDB(t)
			}
			f := newNameFuzz(t, addr, server.name == "TiDB")
			f.run()
		})
	}
}

func newNameFuzz(t *testing.T, addr string, tidb bool) *nameFuzz {
	f := &nameFuzz{t: t, records: nameRecords{at: map[uint64][2]string{}}}
	root := mysqlconn.Config{Addr: addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}}
	if tidb {
		root.Password = ""
	}
	direct, err := mysqlconn.Dial(t.Context(), root)
	must(t, err)
	defer direct.Close()
	for _, sql := range []string{
		"CREATE DATABASE IF NOT EXISTS fuzzed CHARACTER SET utf8mb4", "CREATE DATABASE IF NOT EXISTS open", "CREATE DATABASE IF NOT EXISTS `" + wideName + "`",
		"CREATE TABLE IF NOT EXISTS open.free (s VARCHAR(10))", "CREATE TABLE IF NOT EXISTS fuzzed.secret (s VARCHAR(10))", "CREATE TABLE IF NOT EXISTS `" + wideName + "`.secret (s VARCHAR(10))",
		"CREATE TABLE IF NOT EXISTS fuzzed.`" + wideName + "` (s VARCHAR(10))",
		"INSERT INTO open.free VALUES ('x')", "INSERT INTO fuzzed.secret VALUES ('" + nameCanary + "')", "INSERT INTO `" + wideName + "`.secret VALUES ('" + nameCanary + "')",
		"INSERT INTO fuzzed.`" + wideName + "` VALUES ('" + nameCanary + "')",
		"CREATE USER IF NOT EXISTS '" + nameUser + "'@'%' IDENTIFIED BY ''", "CREATE USER IF NOT EXISTS 'other'@'%' IDENTIFIED BY ''", "CREATE USER IF NOT EXISTS '" + wideName + "'@'%' IDENTIFIED BY ''",
		"GRANT ALL ON *.* TO '" + nameUser + "'@'%'", "GRANT ALL ON *.* TO 'other'@'%'", "GRANT ALL ON *.* TO '" + wideName + "'@'%'",
	} {
		if _, err := direct.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for i := range *namesWorkers {
		_, err := direct.Exec(t.Context(), fmt.Sprintf("CREATE USER IF NOT EXISTS other%d@'%%' IDENTIFIED BY ''", i))
		must(t, err)
		_, err = direct.Exec(t.Context(), fmt.Sprintf("GRANT ALL ON *.* TO other%d@'%%'", i))
		must(t, err)
	}
	_, _ = direct.Exec(t.Context(), "SELECT '"+nameCanary+"' INTO OUTFILE 'file.txt'")
	_, _ = direct.Exec(t.Context(), "SELECT '"+nameCanary+"' INTO DUMPFILE 'fuzzed/file.txt'") // TiDB lacks it
	f.charsets = nameCharsets(t, direct)
	observe := func(rules []sqlplan.Rule, perUser int) *rig {
		return startGateway(t, addr, func(o *gateway.Options) {
			must(t, o.Planner.SetRules(rules))
			o.Observers = []gateway.Observer{&f.records}
			o.MaxUserConnections = perUser
		})
	}
	f.blocks, f.allows, f.limits = observe(nameRules(), 0), observe(nameAllowed(), 0), observe(nil, 1)
	for _, user := range []string{nameUser, wideName} {
		held, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: f.limits.addr, User: user, TLSMode: mysqlconn.TLSDisabled})
		must(t, err)
		t.Cleanup(func() { held.Close() })
	}
	return f
}

// nameCharsets returns the character sets of the server that clients can have.
func nameCharsets(t *testing.T, direct *mysqlconn.Client) (all []nameCharset) {
	t.Helper()
	var found []nameCharset
	_, err := direct.Query(t.Context(), "SELECT character_set_name, MIN(id) FROM information_schema.collations WHERE is_default = 'Yes' AND id < 256 GROUP BY 1 ORDER BY 1", func(row mysqlwire.TextRow) error {
		var id int
		_, err := fmt.Sscan(string(row[1]), &id)
		found = append(found, nameCharset{name: string(row[0]), id: uint8(id)})
		return err
	})
	must(t, err)
	for _, c := range found {
		if _, err := direct.Exec(t.Context(), "SET character_set_client = "+c.name); err != nil {
			continue // not for clients
		}
		_, err := direct.Exec(t.Context(), "SET NAMES utf8mb4")
		must(t, err)
		back := ""
		sql := fmt.Sprintf("SELECT HEX(CONVERT(_utf8mb4'%s' USING %s)), CONVERT(CONVERT(_utf8mb4'%[1]s' USING %[2]s) USING utf8mb4)", wideName, c.name)
		_, err = direct.Query(t.Context(), sql, func(row mysqlwire.TextRow) (err error) {
			c.wide, err = hex.DecodeString(string(row[0]))
			back = string(row[1])
			return err
		})
		must(t, err)
		if back != wideName {
			c.wide = nil
		}
		all = append(all, c)
	}
	return all
}

// A nameBlock is the names of one position in one character set.
type nameBlock struct {
	position namePosition
	charset  nameCharset
	random   bool // longer sequences
}

func (f *nameFuzz) run() {
	t := f.t
	rnd := testseed.Rand(t)
	var blocks []nameBlock
	for _, p := range namePositions() {
		for _, c := range f.charsets {
			blocks = append(blocks, nameBlock{position: p, charset: c})
		}
	}
	rnd.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	usual := func(b nameBlock) int { return btoi(b.charset.name != "utf8mb4") }
	slices.SortStableFunc(blocks, func(a, b nameBlock) int { return usual(a) - usual(b) }) // first, for short runs
	whole := len(blocks)
	ctx, cancel := context.WithTimeout(t.Context(), *namesDuration)
	defer cancel()
	next := make(chan nameBlock)
	var done atomic.Int64
	var workers sync.WaitGroup
	for i := range *namesWorkers {
		w := &nameWorker{nameFuzz: f, user: fmt.Sprintf("other%d", i), rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0))}
		workers.Go(func() {
			defer w.hangUp()
			for b := range next {
				if w.block(ctx, b) {
					done.Add(1)
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		b := blocks[i%whole]
		b.random = i >= whole
		select {
		case next <- b:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	t.Logf("%d names in %d character sets: %d of %d positions × character sets whole; %d names accepted by the server, %d as a protected one, %d statements and logins refused; %d leaks",
		f.sent.Load(), len(f.charsets), min(int(done.Load()), whole), whole, f.accepted.Load(), f.reached.Load(), f.refused.Load(), f.leaks.Load())
	if f.refused.Load() == 0 {
		t.Error("no statement was refused: the rules had nothing to do")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *nameFuzz) leak(w *nameWorker, format string, args ...any) {
	if n := f.leaks.Add(1); n <= 20 {
		f.t.Errorf("%s %q in %s (results in %s, allow rules %t): %s",
			w.at.position.name, w.name, w.at.charset.name, w.results, w.allowed, fmt.Sprintf(format, args...))
	}
}

// A nameWorker is one client.
type nameWorker struct {
	*nameFuzz
	user    string // of COM_CHANGE_USER's connections
	rnd     *rand.Rand
	at      nameBlock
	results string
	name    []byte
	c       *mysqlconn.Client // logged in as other; nil: none
	allowed bool              // c is connected under nameAllowed
}

func (w *nameWorker) hangUp() {
	if w.c != nil {
		w.c.Conn.Close()
		w.c = nil
	}
}

// block sends the names of a block, in an order of its own, and reports whether it sent all.
func (w *nameWorker) block(ctx context.Context, b nameBlock) bool {
	w.at = b
	w.hangUp()
	w.results = "NULL"
	if w.rnd.IntN(4) > 0 {
		w.results = w.charsets[w.rnd.IntN(len(w.charsets))].name
	}
	w.allowed = strings.HasPrefix(b.position.name, "unquoted") || w.rnd.IntN(4) == 0
	names := [][]byte{[]byte(b.position.base)}
	if wide := b.charset.wide; wide != nil {
		names = append(names, wide)
	}
	for v := range 256 {
		add := []byte{byte(v)}
		if b.random {
			add = append(add, byte(w.rnd.Uint32()))
			if w.rnd.IntN(3) == 0 {
				add = append(add, byte(w.rnd.Uint32()))
			}
		}
		for _, at := range []int{0, w.rnd.IntN(len(b.position.base)), len(b.position.base)} {
			names = append(names, append(append([]byte(b.position.base[:at]), add...), b.position.base[at:]...))
		}
	}
	w.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		if ctx.Err() != nil {
			return false
		}
		w.sent.Add(1)
		w.name = name
		b.position.send(w, name)
	}
	return true
}

// session returns a connection in the character set under test.
func (w *nameWorker) session() *mysqlconn.Client {
	if w.c != nil {
		return w.c
	}
	addr := w.blocks.addr
	if w.allowed {
		addr = w.allows.addr
	}
	c, err := mysqlconn.Dial(w.t.Context(), mysqlconn.Config{Addr: addr, User: "other", TLSMode: mysqlconn.TLSDisabled})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
	_ = w.exec("SET character_set_client = " + w.at.charset.name + ", character_set_results = " + w.results)
	return c
}

// exec executes a statement on the session, without interest in its outcome.
func (w *nameWorker) exec(sql string) error {
	_, err := w.session().Exec(w.t.Context(), sql)
	w.outcome(err)
	return err
}

// outcome counts refusals and drops a session that ended.
func (w *nameWorker) outcome(err error) {
	if err == nil {
		return
	}
	w.outcomeOf(err)
	if _, server := errors.AsType[*mysqlconn.ServerError](err); !server {
		w.hangUp()
	}
}

// read executes a statement that must not return a canary.
func (w *nameWorker) read(sql string) { w.readOn(w.session(), sql) }

func (w *nameWorker) readOn(c *mysqlconn.Client, sql string) {
	_, err := c.Query(w.t.Context(), sql, func(row mysqlwire.TextRow) error {
		for _, v := range row {
			if bytes.Contains(v, []byte(nameCanary)) {
				w.leak(w, "%q returned a blocked row", sql)
			}
		}
		return nil
	})
	if err == nil {
		w.accepted.Add(1)
	}
	if c == w.c {
		w.outcome(err)
	}
}

func (w *nameWorker) use(name []byte) {
	if w.exec("USE `"+string(name)+"`") == nil {
		w.inside(w.c, nil)
	}
}

func (w *nameWorker) initDB(name []byte) {
	err := w.session().Send(w.t.Context(), append([]byte{byte(mysqlwire.ComInitDB)}, name...))
	w.outcome(err)
	if err == nil {
		w.inside(w.c, nil)
	}
}

// inside checks a session in which the server has accepted a schema's or user's name. The connection remains w.c's,
// if it is.
func (w *nameWorker) inside(c *mysqlconn.Client, held func()) {
	w.accepted.Add(1)
	var schema, account, user string
	var id uint64
	const probe = "SELECT CONNECTION_ID(), HEX(CONVERT(DATABASE() USING utf8mb4)), HEX(CONVERT(CURRENT_USER() USING utf8mb4)), HEX(CONVERT(USER() USING utf8mb4))"
	_, err := c.Query(w.t.Context(), probe, func(row mysqlwire.TextRow) error {
		_, _ = fmt.Sscan(string(row[0]), &id)
		for i, p := range []*string{&schema, &account, &user} {
			b, _ := hex.DecodeString(string(row[i+1]))
			*p = string(b)
		}
		account, _, _ = cutLast(account, "@")
		user, _, _ = cutLast(user, "@")
		return nil
	})
	probed := err == nil
	if c == w.c {
		w.outcome(err)
	} else {
		w.outcomeOf(err)
	}
	protected := account == nameUser || account == wideName || user == nameUser || user == wideName
	if probed && (schema == "fuzzed" || schema == wideName || protected) {
		w.reached.Add(1)
	}
	if held != nil && probed && protected {
		held()
	}
	if c == w.c && w.c == nil {
		return
	}
	w.readOn(c, "SELECT s FROM secret")
	if c == w.c && w.c == nil {
		return
	}
	if _, err := c.Exec(w.t.Context(), "DO 1"); probed && protected && err == nil && held == nil {
		w.leak(w, "user %q, account %q, executed a statement that is blocked for them", user, account)
	}
	if rec, ok := w.records.take(id); ok && probed {
		if rec[0] != schema && rec[0] != "" {
			w.leak(w, "schema %q was recorded as %q", schema, rec[0])
		}
		if rec[1] != user {
			w.leak(w, "user %q, account %q, was recorded as %q", user, account, rec[1])
		}
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// outcomeOf is outcome for another connection than w.c.
func (w *nameWorker) outcomeOf(err error) {
	if err != nil && (strings.Contains(err.Error(), "Tare refused") || strings.Contains(err.Error(), "through Tare")) {
		w.refused.Add(1)
	}
}

// login logs in with the character set under test.
func (w *nameWorker) login(r *rig, user, schema []byte) *mysqlconn.Client {
	c, err := mysqlconn.Dial(w.t.Context(), mysqlconn.Config{
		Addr: r.addr, User: string(user), Database: string(schema), Charset: w.at.charset.id, TLSMode: mysqlconn.TLSDisabled,
	})
	w.outcomeOf(err)
	if err != nil {
		return nil
	}
	return c
}

func (w *nameWorker) logIn(name []byte) {
	if c := w.login(w.blocks, name, nil); c != nil {
		defer c.Conn.Close()
		w.inside(c, nil)
	}
}

func (w *nameWorker) logInTo(name []byte) {
	if c := w.login(w.blocks, []byte("other"), name); c != nil {
		defer c.Conn.Close()
		w.inside(c, nil)
	}
}

// logInLimited logs in where each of the protected users has as many connections as it may.
func (w *nameWorker) logInLimited(name []byte) {
	if c := w.login(w.limits, name, nil); c != nil {
		defer c.Conn.Close()
		w.inside(c, func() { w.leak(w, "user name %q has a connection beyond the limit", name) })
	}
}

func (w *nameWorker) changeTo(name []byte) { w.change(w.blocks, []byte("other"), name, nil) }

func (w *nameWorker) changeUser(name []byte) {
	if w.rnd.IntN(2) == 0 {
		w.change(w.limits, name, nil, func() { w.leak(w, "user name %q has a connection beyond the limit", name) })
		return
	}
	w.change(w.blocks, name, nil, nil)
}

// change logs in as the worker's user and changes it.
func (w *nameWorker) change(r *rig, user, schema []byte, held func()) {
	if bytes.IndexByte(user, 0) >= 0 || bytes.IndexByte(schema, 0) >= 0 {
		return // the packet would have other fields
	}
	c, err := mysqlconn.Dial(w.t.Context(), mysqlconn.Config{Addr: r.addr, User: w.user, TLSMode: mysqlconn.TLSDisabled})
	if err != nil {
		return // the worker's last connection is not closed yet
	}
	defer c.Conn.Close()
	u := mysqlwire.ChangeUser{User: user, Database: schema, Charset: uint16(w.at.charset.id), AuthPlugin: []byte("mysql_native_password")}
	must(w.t, c.SetDeadline(time.Now().Add(time.Minute)))
	c.Seq = 0
	if c.WriteMessage(u.AppendTo(nil, c.Capabilities)) != nil {
		return
	}
	for {
		p, err := c.ReadMessage(1 << 16)
		switch {
		case err != nil:
			return
		case p[0] == mysqlwire.MarkErr:
			var e mysqlwire.Err
			if e.Decode(p) == nil {
				w.outcomeOf(fmt.Errorf("%s", e.Message))
			}
			return
		case p[0] == mysqlwire.MarkOK:
			w.inside(c, held)
			return
		case p[0] == mysqlwire.MarkEOF:
			if c.WriteMessage(nil) != nil {
				return
			}
		}
	}
}

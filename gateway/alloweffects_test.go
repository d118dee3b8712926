package gateway_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var allowDuration = flag.Duration("allow-duration", 2*time.Second, "how long TestAllowEffects sends statements to each server; make fuzz-rules uses minutes")

// effectStatements are statements with effects that the test measures. FILE is replaced by the path of a new file, IN by
// that of one with rows, QUERY by a random query.
var effectStatements = []string{
	"QUERY", "QUERY", "QUERY FOR UPDATE", "QUERY FOR SHARE", "QUERY LOCK IN SHARE MODE", "(QUERY) FOR UPDATE", "QUERY INTO OUTFILE 'FILE'", "(QUERY) INTO OUTFILE 'FILE'",
	"SELECT a FROM shop.t LIMIT 1 INTO DUMPFILE 'FILE'", "SELECT a INTO OUTFILE 'FILE' FROM shop.t", "QUERY UNION QUERY INTO OUTFILE 'FILE'", "TABLE shop.t INTO OUTFILE 'FILE'", "VALUES ROW(1) INTO OUTFILE 'FILE'",
	"SELECT * FROM (QUERY FOR UPDATE) x", "SELECT * FROM shop.t WHERE a IN (QUERY FOR UPDATE)", "WITH x AS (QUERY) SELECT * FROM x FOR UPDATE", "SELECT @a := shop.f()", "DO shop.f()", "DO GET_LOCK('x', 0)", "SET @a = shop.f()", "SET @a = GET_LOCK('x', 0)",
	"INSERT INTO shop.t (a) VALUES (7)", "INSERT INTO shop.t (id, a) VALUES (1, 7) ON DUPLICATE KEY UPDATE a = 8", "INSERT IGNORE INTO shop.t (a) QUERY", "INSERT INTO shop.t SET a = shop.f()", "REPLACE INTO shop.t (id, a) VALUES (1, 9)", "REPLACE INTO shop.t (a) QUERY",
	"UPDATE shop.t SET a = a + 1", "UPDATE shop.t, shop.u SET t.a = 5 WHERE t.id = u.id", "DELETE FROM shop.t WHERE id = 2", "DELETE shop.t FROM shop.t JOIN shop.u USING (id)", "WITH x AS (QUERY) DELETE FROM shop.t WHERE a IN (SELECT a FROM x)", "UPDATE shop.t SET a = shop.f()",
	"LOAD DATA INFILE 'IN' INTO TABLE shop.t (a)", "LOAD DATA INFILE 'IN' REPLACE INTO TABLE shop.t (id)", "SELECT LOAD_FILE('IN')", "CALL shop.p()", "SET GLOBAL max_connections = 123", "SET @@global.max_connections = 123", "SET SESSION sort_buffer_size = 65536, GLOBAL max_connections = 123",
	"HANDLER shop.t OPEN", "LOCK TABLES shop.t WRITE", "FLUSH TABLES WITH READ LOCK", "CREATE TABLE shop.n (a INT)", "CREATE TABLE shop.n AS QUERY", "CREATE OR REPLACE VIEW shop.v AS SELECT shop.f()", "ALTER TABLE shop.t COMMENT 'x'",
	"EXPLAIN QUERY", "EXPLAIN ANALYZE QUERY", "ANALYZE QUERY", "ANALYZE DELETE FROM shop.t", "ANALYZE FORMAT=JSON UPDATE shop.t SET a = 1", "SHOW STATUS WHERE shop.f()", "SHOW TABLES FROM shop WHERE shop.f()",
	"QUERY; DELETE FROM shop.t", "BEGIN; DELETE FROM shop.t", "SELECT 1; SELECT shop.f()", "PREPARE s FROM 'DELETE FROM shop.t'", "EXECUTE IMMEDIATE 'DELETE FROM shop.t'", "BEGIN NOT ATOMIC DELETE FROM shop.t; END", "SET STATEMENT max_statement_time = 5 FOR DELETE FROM shop.t", "SET STATEMENT max_statement_time = 5 FOR QUERY",
	"SET @a = (QUERY LIMIT 1)", "IF 1 THEN DELETE FROM shop.t; END IF", "XA START 'x'", "KILL 1000000", "OPTIMIZE TABLE shop.t", "DELETE FROM shop.t RETURNING shop.f()", "INSERT INTO shop.t (a) VALUES (3) RETURNING a", "SELECT NEXTVAL(shop.s)", "SELECT a FROM shop.t PROCEDURE ANALYSE()",
}

var effectQueries = []string{
	"SELECT a FROM shop.t", "SELECT 1", "SELECT shop.f()", "SELECT GET_LOCK('x', 0)", "SELECT a FROM shop.t WHERE shop.f() > 0", "SELECT IF(1, shop.f(), 2)", "SELECT a FROM shop.t ORDER BY shop.f()", "SELECT a FROM shop.t GROUP BY a HAVING GET_LOCK('x', 0)",
	"SELECT CASE WHEN 1 THEN shop.f() END", "SELECT /*! shop.f() */", "SELECT `shop`.`f`()", "SELECT COUNT(shop.f()) FROM shop.t", "TABLE shop.t", "SELECT a FROM shop.t AS f", "SELECT (SELECT shop.f())", "SELECT a FROM shop.t FOR UPDATE", "SELECT a + RELEASE_LOCK('y') FROM shop.t", "VALUES (1)",
	"WITH x AS (SELECT shop.f() AS a) SELECT a FROM x", "SELECT a FROM shop.v", "SELECT 2 UNION SELECT shop.f()", "SELECT SQL_NO_CACHE a FROM shop.t WHERE id = 1",
}

// randomStatement returns a statement with QUERY replaced, in random letter case, with comments.
func randomStatement(rnd *rand.Rand) string {
	s := effectStatements[rnd.IntN(len(effectStatements))]
	for strings.Contains(s, "QUERY") {
		s = strings.Replace(s, "QUERY", effectQueries[rnd.IntN(len(effectQueries))], 1)
	}
	words := strings.Split(s, " ")
	for i, w := range words {
		if rnd.IntN(8) == 0 && !strings.ContainsAny(w, "'`") {
			words[i] = strings.ToLower(w)
		}
		if rnd.IntN(12) == 0 && i > 0 && !strings.Contains(s, "*") && !strings.Contains(s, "'") {
			words[i] = []string{"/* x */ ", "\n", "-- '\n", "/**/", "/*!*/"}[rnd.IntN(5)] + words[i]
		}
		if rnd.IntN(30) == 0 && !strings.ContainsAny(s, "'*;") {
			words[i] = "/*! " + words[i] + " */"
		}
	}
	return strings.Join(words, " ")
}

// An effectsRig measures on a server what statements did that passed the gateway.
type effectsRig struct {
	*testmysql.Server
	*rig
	direct *mysqlconn.Client
	dir    string
	files  int
}

// TestAllowEffects sends random statements under random allow rules. What a statement did, as the server shows it, is an
// effect that the rule's types imply or its effects name.
func TestAllowEffects(t *testing.T) {
	rnd := testseed.Rand(t)
	for name, opts := range refusalServers(t) {
		t.Run(name, func(t *testing.T) {
			e := startEffects(t, opts)
			seen := map[string]int{}
			for end := time.Now().Add(*allowDuration); time.Now().Before(end); {
				rule := randomAllow(rnd)
				for range 20 {
					e.try(t, rule, randomStatement(rnd), seen)
				}
			}
			t.Log(seen)
			if seen["passed"] == 0 || seen["refused"] == 0 || seen["passed"]+seen["refused"] > 10_000 && len(seen) < 11 {
				t.Errorf("too little was seen: %v", seen)
			}
		})
	}
}

func startEffects(t *testing.T, opts []testmysql.Option) *effectsRig {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))               //nolint:gosec // another user's server writes to it
	must(t, os.Chmod(filepath.Dir(dir), 0o755)) //nolint:gosec // and has to reach it
	must(t, os.WriteFile(filepath.Join(dir, "in"), []byte("555\n"), 0o644))
	s := testmysql.StartOrSkip(t, append(opts, testmysql.WithArgs("--secure-file-priv="))...)
	must(t, s.Exec("set global log_bin_trust_function_creators = 1", "grant all on *.* to "+testmysql.AppUser+"@'%'", "create database shop", "create table shop.log (a int)",
		"create function shop.f() returns int modifies sql data begin insert into shop.log values (1); return 1; end",
		"create procedure shop.p() insert into shop.log values (2)"))
	e := &effectsRig{Server: s, rig: startGateway(t, s.Addr, nil), dir: dir}
	e.direct = e.connect(t, s.Addr)
	t.Cleanup(func() { e.direct.Close() })
	for _, sql := range []string{"set lock_wait_timeout = 1, innodb_lock_wait_timeout = 1", "set session transaction isolation level read uncommitted"} {
		_, err := e.direct.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
		must(t, err)
	}
	e.reset(t)
	return e
}

func (e *effectsRig) connect(t *testing.T, addr string) *mysqlconn.Client {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}, Capabilities: mysqlwire.CapMultiStatements | mysqlwire.CapMultiResults,
	})
	must(t, err)
	return c
}

// reset restores what statements change.
func (e *effectsRig) reset(t *testing.T) {
	t.Helper()
	must(t, e.Exec("set global max_connections = 100", "unlock tables", "drop table if exists shop.n", "drop table if exists shop.t", "drop table if exists shop.u", "create table shop.t (id int auto_increment primary key, a int)",
		"create table shop.u (id int primary key, a int)", "insert into shop.t (a) values (1), (2), (3)", "insert into shop.u values (1, 1), (3, 3)", "create or replace view shop.v as select a from shop.t", "delete from shop.log"))
}

// randomAllow returns an allow rule with random types, tables and effects.
func randomAllow(rnd *rand.Rand) sqlplan.Rule {
	r := sqlplan.Rule{Name: "r", Action: sqlplan.ActionAllow}
	types, effects := slices.Collect(sqlplan.AllTypes()), slices.Collect(sqlplan.AllEffects())
	if rnd.IntN(3) > 0 {
		r.Tables = []string{"shop.*"}
	}
	if r.Tables == nil || rnd.IntN(4) > 0 {
		for range 1 + rnd.IntN(6) {
			r.Types = append(r.Types, types[rnd.IntN(len(types))])
		}
		r.Types = append(r.Types, sqlplan.TypeSelect)
	}
	for range rnd.IntN(5) {
		r.Effects = append(r.Effects, effects[rnd.IntN(len(effects))])
	}
	return r
}

// permits returns the effects that the rule permits.
func permits(r sqlplan.Rule) (e sqlplan.Effect) {
	for _, t := range r.Types {
		e |= t.Implied()
	}
	for _, x := range r.Effects {
		e |= x
	}
	if r.Types == nil {
		e |= ^(sqlplan.EffectFile | sqlplan.EffectFileRead | sqlplan.EffectFunction | sqlplan.EffectGlobalVar | sqlplan.EffectAdmin | sqlplan.EffectUnknown)
	}
	return e
}

// try executes a statement in a transaction through the gateway, under the rule, and compares what it did.
func (e *effectsRig) try(t *testing.T, rule sqlplan.Rule, sql string, seen map[string]int) {
	t.Helper()
	e.files++
	file := filepath.Join(e.dir, fmt.Sprint(e.files))
	sql = strings.NewReplacer("FILE'", file+"'", "'IN'", "'"+filepath.Join(e.dir, "in")+"'").Replace(sql)
	must(t, e.planner.SetRules(nil))
	c := e.connect(t, e.addr)
	defer c.Close()
	none := func(mysqlwire.TextRow) error { return nil }
	_, err := c.Query(t.Context(), "set autocommit = 0", none)
	must(t, err)
	before := map[string]string{}
	testwait.Until(t, "the session before to end", func() bool {
		before, err = e.rows(t)
		return err == nil
	})
	must(t, e.planner.SetRules([]sqlplan.Rule{rule}))
	text := ""
	_, err = c.Query(t.Context(), sql, func(r mysqlwire.TextRow) error {
		text += string(r[0])
		return nil
	})
	var failed *mysqlconn.ServerError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("%s: %v", sql, err)
	}
	if failed != nil && strings.Contains(failed.Error(), "Tare refused") {
		seen["refused"]++
		return
	}
	done := e.measure(t, before, file, text)
	for what, needs := range done {
		seen[what]++
		if permitted := permits(rule); !slices.ContainsFunc(needs, permitted.Has) {
			t.Errorf("%s under types %v, tables %v, effects %v: %s; %v", sql, rule.Types, rule.Tables, rule.Effects, what, err)
		}
	}
	seen["passed"]++
	if len(done) > 0 {
		c.Close()
		e.reset(t)
	}
}

// rows returns the rows of shop.t with uncommitted changes, and an error if the table is locked.
func (e *effectsRig) rows(t *testing.T) (all map[string]string, locked error) {
	t.Helper()
	all = map[string]string{}
	_, locked = e.direct.Query(t.Context(), "select id, a from shop.t", func(r mysqlwire.TextRow) error {
		all[string(r[0])] = string(r[1])
		return nil
	})
	return all, locked
}

// measure returns what a statement did, and the sets of effects one of which permits it.
func (e *effectsRig) measure(t *testing.T, before map[string]string, file, text string) map[string][]sqlplan.Effect {
	t.Helper()
	done := map[string][]sqlplan.Effect{}
	value := func(sql string) (v string, err error) {
		_, err = e.direct.Query(t.Context(), sql, func(r mysqlwire.TextRow) error {
			v += string(r[0]) + " "
			return nil
		})
		return v, err
	}
	if _, err := os.Stat(file); err == nil {
		done["wrote a file"] = []sqlplan.Effect{sqlplan.EffectFile}
	}
	if strings.Contains(text, "555") {
		done["read a file"] = []sqlplan.Effect{sqlplan.EffectFileRead}
	}
	after, locked := e.rows(t)
	if locked != nil {
		done["locked tables"] = []sqlplan.Effect{sqlplan.EffectTableLocks}
		return done
	}
	for id, a := range after {
		switch old, ok := before[id]; {
		case a == "555", id == "555":
			done["loaded a file"] = []sqlplan.Effect{sqlplan.EffectFileRead | sqlplan.EffectRowInsert}
		case !ok:
			done["inserted"] = []sqlplan.Effect{sqlplan.EffectRowInsert}
		case old != a:
			done["updated"] = []sqlplan.Effect{sqlplan.EffectRowUpdate, sqlplan.EffectRowDelete | sqlplan.EffectRowInsert}
		}
	}
	for id := range before {
		if _, ok := after[id]; !ok {
			done["deleted"] = []sqlplan.Effect{sqlplan.EffectRowDelete}
		}
	}
	rowsChanged := len(done) > 0
	if v, _ := value("select count(*) from shop.log"); v != "0 " && v != "" {
		done["ran stored code"] = []sqlplan.Effect{sqlplan.EffectFunction}
	}
	if v, _ := value("select is_used_lock('x')"); strings.Trim(v, " ") != "" {
		done["took a named lock"] = []sqlplan.Effect{sqlplan.EffectNamedLock}
	}
	if v, _ := value("select @@global.max_connections"); v != "100 " {
		done["set a global variable"] = []sqlplan.Effect{sqlplan.EffectGlobalVar}
	}
	if v, _ := value("select count(*) from information_schema.tables where table_schema = 'shop' and (table_name = 'n' or table_comment = 'x')"); v != "0 " && v != "" {
		done["changed the schema"] = []sqlplan.Effect{sqlplan.EffectSchema}
		rowsChanged = true
	}
	if _, err := value("select id from shop.t for update nowait"); err != nil && !rowsChanged {
		done["took locks"] = []sqlplan.Effect{sqlplan.EffectRowLocks, sqlplan.EffectTableLocks}
	}
	return done
}

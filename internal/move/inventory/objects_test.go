package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// objectsSQL creates a schema with objects of each kind: the view a is listed before those that it refers to.
var objectsSQL = []string{
	"CREATE DATABASE shop COLLATE latin1_swedish_ci", "CREATE DATABASE elsewhere", "USE shop",
	"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)", "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE elsewhere.w (id INT PRIMARY KEY)",
	"CREATE TABLE _tare_old_t (id INT PRIMARY KEY)", "CREATE TABLE xtare_sentry_t (id INT PRIMARY KEY)", "CREATE TABLE _tare_heartbeat (id INT PRIMARY KEY)",
	"INSERT INTO t VALUES (7, 1), (8, 2)",
	"CREATE SEQUENCE s START WITH 5", "DO SETVAL(s, 41)",
	"CREATE FUNCTION f (a INT) RETURNS INT RETURN a + 1", "CREATE PROCEDURE p () SELECT 1",
	"SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')", `CREATE PROCEDURE "q" () SELECT "n" FROM t`, "SET sql_mode = DEFAULT",
	"CREATE VIEW c AS SELECT id, f(n) AS n FROM t", "CREATE VIEW b AS SELECT c.id FROM c JOIN elsewhere.w", "CREATE VIEW a AS SELECT id FROM b",
	"CREATE TRIGGER second AFTER INSERT ON t FOR EACH ROW SET @a = 1", "CREATE TRIGGER first AFTER INSERT ON t FOR EACH ROW PRECEDES second SET @a = 2",
	"CREATE TRIGGER of_u AFTER INSERT ON u FOR EACH ROW SET @a = 3",
	"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE EVENT g ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
	"CREATE USER reader", "GRANT SELECT ON shop.* TO reader", "USE information_schema",
}

// An objectServer is a server that is both sides of a copy in turn.
type objectServer struct {
	t       *testing.T
	cfg     mysqlconn.Config
	c       *mysqlconn.Client
	created []string
}

func newObjectServer(t *testing.T) *objectServer {
	cfg := testrows.Root(testmysql.Start(t))
	s := &objectServer{t: t, cfg: cfg, c: testrows.Connect(t, cfg)}
	testrows.Exec(t, s.c, objectsSQL...)
	return s
}

var shopSelection = Selection{Schemas: []string{"shop"}, Exclude: []Pattern{{"shop", "u"}, {"shop", "q"}}}

func (s *objectServer) read(c *mysqlconn.Client, sel Selection) (*Inventory, error) {
	return Read(s.t.Context(), clientQuerier{c}, &sel)
}

// judged returns the objects of the source, judged with the server as their target.
func (s *objectServer) judged(c *mysqlconn.Client, sel Selection) (*Inventory, error) {
	inv, err := s.read(c, sel)
	if err != nil {
		return nil, err
	}
	translator, err := TranslatorTo(s.t.Context(), inv.Source, c, nil)
	if err != nil {
		return nil, err
	}
	return inv, inv.Judge(s.t.Context(), clientQuerier{c}, Target{Conn: c, Translator: translator, Table: func(_ context.Context, _, name string) error {
		if name == "bad" {
			return fmt.Errorf("it is a bad table")
		}
		return nil
	}})
}

func (s *objectServer) creator(c *mysqlconn.Client) *Creator {
	s.created = nil
	return &Creator{Conn: c, Scratch: "scratch", Check: func(context.Context) error { return nil }, Created: func(o *Object) { s.created = append(s.created, o.String()) }}
}

func (s *objectServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// listed returns a line for each object.
func listed(inv *Inventory) (lines []string) {
	for _, o := range inv.Objects {
		line := fmt.Sprintf("%s: %s", o, o.Fate)
		if o.Why != "" {
			line += ", " + o.Why
		}
		if o.Exists {
			line += ", exists"
		}
		if o.Note != "" {
			line += " (" + o.Note + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *objectServer) compare(what string, got, want []string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestObjects reads the objects of a schema, drops them, and creates them again: they are the same.
func TestObjects(t *testing.T) {
	s := newObjectServer(t)
	inv, err := s.judged(s.c, shopSelection)
	s.must(err)
	const enable = " (created DISABLE; once clients use the target: ALTER EVENT `shop`.`e` ENABLE there, and DISABLE on the source)"
	s.compare("objects", listed(inv), []string{
		"schema shop: copied, exists", "sequence shop.s: copied, exists",
		"table shop._tare_heartbeat: left out, heartbeats of a copy that follows",
		"table shop._tare_old_t: left out, a table of tare alter: old, reverted or unfinished; tare alter list shows it",
		"table shop.t: copied, exists", "table shop.u: left out, excluded by option exclude shop.u",
		"table shop.xtare_sentry_t: left out, a table of tare alter: old, reverted or unfinished; tare alter list shows it",
		"function shop.f: copied, exists", "procedure shop.p: copied, exists", "procedure shop.q: left out, excluded by option exclude shop.q",
		"view shop.a: copied, exists", "view shop.b: copied, exists", "view shop.c: copied, exists",
		"event shop.e: copied, exists" + enable, "event shop.g: copied, exists (created DISABLE)",
		"trigger shop.first: copied, exists", "trigger shop.second: copied, exists", "trigger shop.of_u: left out, its table is excluded by option exclude shop.u",
		"grantee shop.'reader'@'%': left out, accounts and their privileges are copied with option users alone",
	})
	if err := inv.Err(); err != nil || inv.Count(NeedsHand) != 0 || inv.Count(LeftOut) != 7 {
		t.Errorf("%v, %d objects need a hand, %d are left out", err, inv.Count(NeedsHand), inv.Count(LeftOut))
	}
	var missing []string
	for _, n := range inv.NotCopied() {
		missing = append(missing, fmt.Sprint(n.Kind, " ", n.Schema, " ", n.Names))
	}
	s.compare("not copied", missing, []string{
		"table shop [_tare_heartbeat _tare_old_t u xtare_sentry_t]", "procedure shop [q]", "trigger shop [of_u on u]", "grantee shop ['reader'@'%']",
	})
	var references []string
	for _, o := range inv.Copied(View) {
		references = append(references, fmt.Sprint(o.Name, o.References))
	}
	s.compare("references", references, []string{"a[{shop a} {shop b}]", "b[{shop b} {shop c} {elsewhere w}]", "c[{shop c} {shop t}]"})

	s.must(inv.ReadSequences(t.Context(), clientQuerier{s.c}))
	testrows.Exec(t, s.c, "DROP DATABASE shop")
	var present []string
	c := s.creator(s.c)
	c.Present = func(_ context.Context, o *Object) error {
		present = append(present, o.String())
		return nil
	}
	s.must(c.Create(t.Context(), inv, Schema, Sequence))
	testrows.Exec(t, s.c, "USE shop", "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)", "CREATE TABLE u (id INT PRIMARY KEY)", "USE information_schema")
	s.must(c.Create(t.Context(), inv, Function, Procedure, View, Event, Trigger))
	s.must(c.RaiseSequences(t.Context(), inv, nil))
	all := []string{
		"sequence shop.s", "function shop.f", "procedure shop.p", "view shop.c", "view shop.b", "view shop.a", "event shop.e", "event shop.g", "trigger shop.first", "trigger shop.second",
	}
	s.compare("created", s.created, all)
	s.compare("present", present, append([]string{"schema shop"}, all...))
	later, err := s.read(s.c, Selection{Schemas: []string{"shop"}})
	s.must(err)
	s.compare("changes", inv.Changed(later), []string{
		"event shop.e was altered", // it is disabled
		"table shop._tare_old_t was dropped", "table shop.xtare_sentry_t was dropped", "procedure shop.q was dropped", "trigger shop.of_u was dropped",
	})
	if next := testrows.Column(t, s.c, "SELECT NEXTVAL(shop.s)"); next[0] != "42" {
		t.Errorf("the sequence continues with %s", next)
	}
	again := func() {
		t.Helper()
		c := s.creator(s.c)
		s.must(c.Create(t.Context(), inv, Schema, Sequence, Function, Procedure, View, Event, Trigger))
		s.compare("created again", s.created, nil)
	}
	again()
	for _, o := range inv.Objects { // as a server of another version writes it
		if o.Kind == View || o.Kind == Function || o.Kind == Procedure {
			o.target.Text += " "
		}
	}
	again()
	for _, sql := range []string{
		"ALTER VIEW c AS SELECT id, n FROM t", "CREATE OR REPLACE FUNCTION f (a INT) RETURNS INT RETURN a + 2", "ALTER SEQUENCE s MAXVALUE 99999",
		"CREATE OR REPLACE TRIGGER first AFTER INSERT ON t FOR EACH ROW PRECEDES second SET @a = 9",
	} {
		testrows.Exec(t, s.c, "USE shop", sql, "USE information_schema")
		kind := Kind(strings.ToLower(strings.Fields(strings.Replace(sql, "OR REPLACE ", "", 1))[1]))
		if err := s.creator(s.c).Create(t.Context(), inv, kind); err == nil || !strings.Contains(err.Error(), errOther.Error()) {
			t.Errorf("after %s: %v", sql, err)
		}
		for _, o := range inv.Objects {
			if o.Kind == kind {
				o.Fate = LeftOut
			}
		}
	}
}

// TestObjectFaults has the server fail to execute each statement in turn: reading, judging and creating fail with the cause.
func TestObjectFaults(t *testing.T) {
	s := newObjectServer(t)
	proxy := testproxy.StartFaulty(t, s.cfg.Addr)
	through := s.cfg
	through.Addr, through.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
	c := testrows.Connect(t, through)
	sel := shopSelection
	sel.Exclude = append([]Pattern{{"shop", "a"}, {"shop", "g"}, {"shop", "p"}, {"shop", "second"}}, sel.Exclude...)
	inv, err := s.judged(s.c, sel)
	s.must(err)
	s.must(inv.Err())
	t.Run("Judge", func(t *testing.T) {
		proxy.EachFails(t, func() error { _, err := s.judged(c, sel); return err })
	})
	t.Run("Create", func(t *testing.T) {
		proxy.EachFails(t, func() error {
			testrows.Exec(t, s.c, "DROP DATABASE shop", "CREATE DATABASE shop COLLATE latin1_swedish_ci", "USE shop", "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)", "USE information_schema")
			return s.creator(c).Create(t.Context(), inv, Schema, Sequence, Function, Procedure, View, Event, Trigger)
		})
	})
	t.Run("RaiseSequences", func(t *testing.T) {
		proxy.EachFails(t, func() error { return s.creator(c).RaiseSequences(t.Context(), inv, clientQuerier{c}) })
	})
	t.Run("compare", func(t *testing.T) {
		for _, o := range inv.Objects { // as a server of another version writes it
			o.target.Text += " "
		}
		proxy.EachFails(t, func() error {
			testrows.Exec(t, s.c, "DROP DATABASE IF EXISTS scratch")
			return s.creator(c).Create(t.Context(), inv, Function, Procedure, View)
		})
	})
}

// TestObjectRefusals reads selections and objects that are refused.
func TestObjectRefusals(t *testing.T) {
	s := newObjectServer(t)
	testrows.Exec(t, s.c, "USE shop", "CREATE TABLE bad (id INT PRIMARY KEY)", "CREATE TABLE gone (id INT PRIMARY KEY)", "CREATE VIEW broken AS SELECT id FROM gone", "DROP TABLE gone",
		"CREATE TABLE versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "CREATE USER boss", "CREATE DEFINER=boss PROCEDURE owned () SELECT 1", "DROP USER boss",
		"ALTER DATABASE shop COLLATE latin1_bin", "USE information_schema")
	for _, tt := range []struct {
		sel  Selection
		want string
	}{
		{Selection{Schemas: []string{"mysql"}}, "is the server's own"},
		{Selection{Schemas: []string{"nowhere"}}, "does not exist on the source"},
		{Selection{Schemas: []string{"shop"}, Exclude: []Pattern{{"shop", "none"}}}, "shop.none matches nothing"},
		{Selection{Tables: []Pattern{{"shop", "none"}}}, "shop.none matches nothing"},
	} {
		if _, err := s.read(s.c, tt.sel); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.sel, err, tt.want)
		}
	}
	inv, err := s.read(s.c, Selection{Tables: []Pattern{{"shop", "t"}, {"shop", "_tare_old_t"}, {"else*", "*"}}})
	s.must(err)
	var copied []string
	for _, o := range inv.Objects {
		if o.Fate == Copied {
			copied = append(copied, o.String())
		}
	}
	s.compare("copied tables", copied, []string{"schema elsewhere", "table elsewhere.w", "schema shop", "table shop._tare_old_t", "table shop.t"})
	inv, err = s.read(s.c, Selection{Schemas: []string{"shop"}, Kinds: []Kind{Event}})
	s.must(err)
	copied = nil
	for _, o := range inv.Objects {
		if o.Fate == Copied && o.Kind != Table {
			copied = append(copied, o.String())
		}
	}
	s.compare("copied kinds", copied, []string{"schema shop", "event shop.e", "event shop.g"})

	inv, err = s.judged(s.c, Selection{Schemas: []string{"shop"}})
	s.must(err)
	found := strings.Join(listed(inv), "\n")
	for _, want := range []string{
		"table shop.bad: needs a hand, it is a bad table, exists",
		"table shop.versioned: needs a hand, it is a table of the kind SYSTEM VERSIONED, whose earlier rows cannot be copied",
		"view shop.broken: needs a hand, it is not valid on the source: View 'shop.broken' references invalid table(s)",
		"its definer boss@% does not exist in the target: create the account there, or copy it by option users",
		"function shop.f: needs a hand, it was created when the default collation of its schema was latin1_swedish_ci, which is latin1_bin now",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is missing in\n%s", want, found)
		}
	}
	if err := inv.Err(); err == nil || !strings.Contains(err.Error(), "objects need a hand") {
		t.Errorf("objects that need a hand: %v", err)
	}

	testrows.Exec(t, s.c, "CREATE USER few IDENTIFIED BY '"+s.cfg.Password+"'", "GRANT SELECT ON shop.* TO few")
	few := s.cfg
	few.User = "few"
	c := testrows.Connect(t, few)
	if _, err := s.read(c, Selection{Schemas: []string{"shop"}}); err == nil || !strings.Contains(err.Error(), "cannot see all objects of the kind") {
		t.Errorf("an account without privileges: %v", err)
	}
	inv, err = s.read(c, Selection{Schemas: []string{"shop"}, Kinds: []Kind{Sequence}})
	s.must(err)
	if text := strings.Join(listed(inv), "\n"); !strings.Contains(text, "so there may be some that are not listed") || !strings.Contains(text, "sequence shop.s: copied") {
		t.Errorf("an account without privileges lists\n%s", text)
	}
}

package accounts

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/plans.txt")

func TestMain(m *testing.M) { goleak.VerifyTestMain(testmysql.Main(m)) }

// objectsSQL creates the objects that privileges are granted on, on both vendors.
var objectsSQL = []string{
	"SET GLOBAL log_bin_trust_function_creators = 1", "DROP DATABASE IF EXISTS shop_1", "DROP DATABASE IF EXISTS shopx1", "DROP DATABASE IF EXISTS store", "CREATE DATABASE shop_1", "CREATE DATABASE shopx1", "CREATE DATABASE store", "USE shop_1",
	"CREATE TABLE t (a INT PRIMARY KEY, `b b` INT, c INT)", "CREATE TABLE log (a INT PRIMARY KEY)", "CREATE VIEW v AS SELECT a FROM t",
	"CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE PROCEDURE MixedCase() SELECT 1", "CREATE TABLE store.w (a INT PRIMARY KEY)", "USE information_schema",
}

// objects are those of the schemas that are copied: the table log is left out.
func objects() *inventory.Inventory {
	var inv inventory.Inventory
	for _, o := range []inventory.Object{
		{Kind: inventory.Schema, Schema: "shop_1", Name: "shop_1"},
		{Kind: inventory.Table, Schema: "shop_1", Name: "t"},
		{Kind: inventory.Table, Schema: "shop_1", Name: "log", Fate: inventory.LeftOut},
		{Kind: inventory.Function, Schema: "shop_1", Name: "f"},
		{Kind: inventory.Procedure, Schema: "shop_1", Name: "MixedCase"},
		{Kind: inventory.View, Schema: "shop_1", Name: "v"},
	} {
		if o.Fate == "" {
			o.Fate = inventory.Copied
		}
		inv.Objects = append(inv.Objects, &o)
	}
	return &inv
}

// A side is a server that is the source and the target of plans in turn: the rows that a plan reads of the source are recorded before.
type side struct {
	t     *testing.T
	addr  string
	c     *mysqlconn.Client
	proxy *testproxy.Faulty
	to    *mysqlconn.Client // through proxy
}

func newSide(t *testing.T, server *testmysql.Server) *side {
	cfg := testrows.Root(server)
	s := &side{t: t, addr: cfg.Addr, c: testrows.Connect(t, cfg), proxy: testproxy.StartFaulty(t, cfg.Addr)}
	testrows.Exec(t, s.c, objectsSQL...)
	cfg.Addr, cfg.TLSMode = s.proxy.Addr, mysqlconn.TLSDisabled
	s.to = testrows.Connect(t, cfg)
	return s
}

// known reports whether the results in testdata/plans.txt are those of the server's version.
func (s *side) known() bool {
	return strings.HasPrefix(s.c.ServerVersion, "10.11.") || strings.HasPrefix(s.c.ServerVersion, "5.5.5-10.11.") || strings.HasPrefix(s.c.ServerVersion, "9.7.")
}

// set drops all accounts besides those of the package testmysql and of the server, and executes statements.
func (s *side) set(statements []string) {
	s.t.Helper()
	drop := "SELECT CONCAT('DROP USER ', QUOTE(User), '@', QUOTE(Host)) FROM mysql.user"
	if !strings.Contains(s.c.ServerVersion, "MariaDB") {
		testrows.Exec(s.t, s.c, "SET GLOBAL mandatory_roles = '', GLOBAL activate_all_roles_on_login = OFF, GLOBAL partial_revokes = OFF")
	} else {
		drop = "SELECT IF(is_role = 'Y', CONCAT('DROP ROLE `', User, '`'), CONCAT('DROP USER ', QUOTE(User), '@', QUOTE(Host))) FROM mysql.user"
	}
	testrows.Exec(s.t, s.c, testrows.Column(s.t, s.c, drop+" WHERE User NOT IN ('root', 'mysql.sys', 'mysql.session', 'mysql.infoschema', 'mariadb.sys', 'PUBLIC')")...)
	testrows.Exec(s.t, s.c, "DELETE FROM mysql.proxies_priv WHERE Proxied_user <> ''", "DELETE FROM mysql.db WHERE User = 'gone'", "FLUSH PRIVILEGES")
	testrows.Exec(s.t, s.c, statements...)
}

// shown returns what the server shows about an account.
func (s *side) shown(n Name) (lines []string) {
	s.t.Helper()
	name := n.sql()
	for _, sql := range []string{"SHOW CREATE USER " + name, "SHOW GRANTS FOR " + name} {
		if n.Host != "" || strings.HasPrefix(sql, "SHOW GRANTS") {
			lines = append(lines, testrows.Column(s.t, s.c, sql)...)
		}
	}
	return lines
}

// A recording has the rows of queries.
type recording struct {
	of   *mysqlconn.Client // nil: rows are those that were recorded
	rows map[string][]mysqlwire.TextRow
}

func (r *recording) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	if r.of != nil {
		r.rows[sql] = nil
		if _, err := r.of.Query(ctx, sql, func(row mysqlwire.TextRow) error {
			texts := make([]any, len(row))
			for i, value := range row {
				if texts[i] = string(value); value == nil {
					texts[i] = nil
				}
			}
			r.rows[sql] = append(r.rows[sql], testrows.Row(texts...))
			return nil
		}); err != nil {
			return err
		}
	}
	rows, ok := r.rows[sql]
	if !ok {
		return fmt.Errorf("%q was not recorded", sql)
	}
	for _, row := range rows {
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// record returns what a plan reads of a source.
func (s *side) record() *recording {
	s.t.Helper()
	r := &recording{of: s.c, rows: make(map[string][]mysqlwire.TextRow)}
	if _, err := readServer(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	r.of = nil
	return r
}

// createAll executes a plan, and calls a function before it reports.
func (p *Plan) createAll(ctx context.Context, c *mysqlconn.Client, later func()) (created []string, r *Report, err error) {
	creator := &Creator{Conn: c, Check: func(context.Context) error { return nil }, Created: func(text string) { created = append(created, text) }}
	if err := p.createObjects(ctx, creator); err != nil {
		return created, nil, err
	}
	later()
	r, err = p.Report(ctx, c)
	return created, r, err
}

func (p *Plan) createObjects(ctx context.Context, creator *Creator) error {
	if err := p.Create(ctx, creator); err != nil {
		return err
	}
	for _, o := range objects().Objects {
		if o.Fate == inventory.Copied && o.Kind != inventory.Table && o.Kind != inventory.Schema {
			if err := p.Grant(ctx, creator, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// A planCase is one of testdata/plans.txt.
type planCase struct {
	head           string // with the vendors
	source, target []string
	as             []string // privileges of the target's account; none: all
	meanwhile      []string // statements to the target between New and Create
	later          []string // statements to the target before Report
	sel            inventory.Selection
	given, want    string // texts of the file
}

func readPlans(t *testing.T) (head string, cases []planCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/plans.txt")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "\n=== ")
	for block := range strings.SplitSeq(rest, "\n=== ") {
		given, want, _ := strings.Cut(block, "\n--\n")
		c := planCase{sel: inventory.Selection{Schemas: []string{"shop_1"}, Users: true}, given: given, want: strings.TrimSpace(want) + "\n"}
		lines := strings.Split(given, "\n")
		c.head = lines[0]
		for _, line := range lines[1:] {
			key, value, _ := strings.Cut(line, " ")
			switch key {
			case "source":
				c.source = append(c.source, value)
			case "target":
				c.target = append(c.target, value)
			case "both":
				c.source, c.target = append(c.source, value), append(c.target, value)
			case "as":
				c.as = append(c.as, value)
			case "meanwhile":
				c.meanwhile = append(c.meanwhile, value)
			case "later":
				c.later = append(c.later, value)
			case "exclude-users":
				c.sel.ExcludeUsers = append(c.sel.ExcludeUsers, value)
			case "grant-existing":
				c.sel.GrantExisting = append(c.sel.GrantExisting, value)
			case "schema":
				c.sel.Schemas = append(c.sel.Schemas, value)
			default:
				t.Fatalf("%q", line)
			}
		}
		cases = append(cases, c)
	}
	return head, cases
}

// statements returns those of a proxy's packets that are about accounts.
func (s *side) statements() (all []string) {
	for _, sql := range s.proxy.Packets() {
		if verb, _, _ := strings.Cut(sql, " "); slices.Contains([]string{"CREATE", "GRANT", "REVOKE", "DROP", "ALTER"}, verb) || strings.HasPrefix(sql, "SET DEFAULT") {
			all = append(all, sql)
		}
	}
	return all
}

// run plans and executes a case and returns what became of it.
func (c *planCase) run(t *testing.T, from, to *side) string {
	var out strings.Builder
	from.set(c.source)
	source := from.record()
	before := make(map[Name][]string)
	for n := range must(readServer(t.Context(), source)).accounts {
		if !strings.HasPrefix(n.User, "mysql.") && n.User != "mariadb.sys" && n.User != "PUBLIC" {
			before[n] = from.shown(n)
		}
	}
	to.set(c.target)
	conn := to.to
	if len(c.as) > 0 {
		testrows.Exec(t, to.c, "CREATE USER copier IDENTIFIED BY 'x'", "GRANT SELECT ON mysql.* TO copier")
		testrows.Exec(t, to.c, c.as...)
		testrows.Connect(t, mysqlconn.Config{Addr: to.addr, User: "copier", Password: "x"}) // has MySQL know the password for logins without TLS
		conn = testrows.Connect(t, mysqlconn.Config{Addr: to.proxy.Addr, User: "copier", Password: "x", TLSMode: mysqlconn.TLSDisabled})
	}
	inv := objects()
	p, err := New(t.Context(), source, conn, inv, &c.sel)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	for _, o := range p.Objects() {
		if strings.HasPrefix(o.Name, "'root'") || strings.HasPrefix(o.Name, "'mysql.") || strings.HasPrefix(o.Name, "'mariadb.") {
			continue
		}
		fmt.Fprintf(&out, "%s: %s", o.Name, o.Fate)
		if o.Exists {
			out.WriteString(", exists")
		}
		if o.Why != "" {
			out.WriteString(": " + o.Why)
		}
		if o.Note != "" {
			out.WriteString(" (" + o.Note + ")")
		}
		out.WriteString("\n")
		inv.Objects = append(inv.Objects, o)
	}
	if inv.Err() != nil {
		return out.String()
	}
	to.proxy.Set(0, "")
	testrows.Exec(t, to.c, c.meanwhile...)
	created, report, err := p.createAll(t.Context(), conn, func() { testrows.Exec(t, to.c, c.later...) })
	for _, sql := range to.statements() {
		out.WriteString("> " + sql + "\n")
	}
	if err != nil {
		fmt.Fprintf(&out, "failed: %v\n", err)
		return out.String()
	}
	fmt.Fprintf(&out, "%d accounts, %d created, %d grants\n", report.Accounts, report.Created, report.Granted)
	if len(created) != report.Created {
		t.Errorf("created %q, reported %d", created, report.Created)
	}
	for _, a := range p.copied() {
		after := to.shown(a.name)
		for _, line := range before[a.source] {
			if !slices.Contains(after, line) {
				out.WriteString("- " + line + "\n")
			}
		}
		for _, line := range after {
			if !slices.Contains(before[a.source], line) {
				out.WriteString("+ " + line + "\n")
			}
		}
	}
	c.again(t, source, to)
	return out.String()
}

// again plans and executes a case after its first run: nothing is left to do.
func (c *planCase) again(t *testing.T, source *recording, to *side) {
	t.Helper()
	p, err := New(t.Context(), source, to.to, objects(), &c.sel)
	if err != nil {
		t.Fatalf("again: %v", err)
	}
	to.proxy.Set(0, "")
	_, report, err := p.createAll(t.Context(), to.to, func() {})
	if err != nil || report.Created != 0 || report.Granted != 0 || len(to.statements()) != 0 {
		t.Errorf("again: %+v, %v, %q", report, err, to.statements())
	}
	if changed, err := p.Changed(t.Context(), source); len(changed) > 0 || err != nil {
		t.Errorf("changed: %q, %v", changed, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPlans plans and creates accounts from one MariaDB server to another one. Expected are, in testdata/plans.txt, the fate of each account, the
// statements to the target, and the lines of an account that the servers show and that differ.
func TestPlans(t *testing.T) {
	testPlans(t, map[string]*side{"MariaDB": newSide(t, testmysql.Shared(t).Server)}, func(from, to string) bool { return from == to })
}

// TestPlansMySQL has the cases with a server of MySQL.
func TestPlansMySQL(t *testing.T) {
	server := testmysql.StartOrSkip(t, testmysql.WithMySQL())
	t.Run("trimmed names", func(t *testing.T) { testTrimmed(t, testrows.Connect(t, testrows.Root(server))) })
	testPlans(t, map[string]*side{"MariaDB": newSide(t, testmysql.Shared(t).Server), "MySQL": newSide(t, server)}, func(from, to string) bool { return from == "MySQL" || to == "MySQL" })
}

// testTrimmed compares names without white space around them with those that MySQL stores.
func testTrimmed(t *testing.T, c *mysqlconn.Client) {
	const names = "SELECT CONCAT(User, '|', Host) FROM mysql.user"
	for _, n := range []Name{
		{"a", "%"}, {" a", "%"}, {"a ", "%"}, {"a b", "%"}, {"\ta\n", "%"}, {"\v\f\r a", "%"}, {"\u00a0a", "%"}, {"a\u3000", "%"}, {"\x1fa", "%"}, {"a", " h"}, {"a", "h\t"}, {" \t", "h"},
	} {
		before := testrows.Column(t, c, names)
		testrows.Exec(t, c, "CREATE USER "+n.sql())
		created := slices.DeleteFunc(testrows.Column(t, c, names), func(name string) bool { return slices.Contains(before, name) })
		if want := n.trimmed().User + "|" + n.trimmed().Host; len(created) != 1 || created[0] != want {
			t.Errorf("%q: MySQL stores %q, want %q", n, created, want)
		}
		testrows.Exec(t, c, "DROP USER "+n.sql())
	}
}

// testPlans runs the cases between some servers.
func testPlans(t *testing.T, sides map[string]*side, between func(from, to string) bool) {
	head, cases := readPlans(t)
	var text strings.Builder
	text.WriteString(head)
	for _, c := range cases {
		_, vendors, _ := strings.Cut(c.head, ": ")
		from, to, _ := strings.Cut(vendors, " to ")
		got := c.want
		if sides[from] != nil && sides[to] != nil && between(from, to) {
			t.Run(c.head, func(t *testing.T) {
				sides[from].t, sides[to].t = t, t
				got = c.run(t, sides[from], sides[to])
			})
			if diff := cmp.Diff(c.want, got); diff != "" && !*rewrite && sides[from].known() && sides[to].known() {
				t.Errorf("%s: %s", c.head, diff)
			}
		}
		text.WriteString("\n=== " + c.given + "\n--\n" + got)
	}
	if *rewrite {
		if err := os.WriteFile("testdata/plans.txt", []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
